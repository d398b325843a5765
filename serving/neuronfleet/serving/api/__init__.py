"""The words of the project as types: fleet specs, hardware, prices, model facts, evidence."""
