"""Load sent to a running fleet, and what its clients saw of it."""
