"""What a node-group pool is made of: launch template, node group, lifecycle and end notice."""
