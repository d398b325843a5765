"""The neuronfleet command: the one place that sees every area."""
