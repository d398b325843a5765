"""`kubectl neuronfleet top`: slots, load, tokens and dollars by replica."""
