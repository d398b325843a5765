"""What runs in the cluster for the fleets' sake: one construct a unit."""
