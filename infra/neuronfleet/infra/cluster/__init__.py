"""Parts of the EKS cluster, one construct a unit."""
