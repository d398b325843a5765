"""Parts of what is retained, one construct a unit."""
