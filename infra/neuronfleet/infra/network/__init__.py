"""Parts of the network, one construct a unit."""
