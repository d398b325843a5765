"""`kubectl neuronfleet doctor`: what is wrong with a fleet and what to do about it."""
