module neuronfleet/tests/cluster/build/probe

go 1.26.0
