"""A whole fleet on one machine: gateway, metrics, control loop and replicas as child processes."""
