"""`kubectl neuronfleet why`: the last decisions of a fleet and their inputs."""
