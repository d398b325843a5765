"""`kubectl neuronfleet`: why a fleet has its size, what its replicas do, what is wrong with it."""
