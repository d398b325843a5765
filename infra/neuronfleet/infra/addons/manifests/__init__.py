"""Kubernetes objects of the project's own, as mappings: no CDK, so that a cluster tests them."""
