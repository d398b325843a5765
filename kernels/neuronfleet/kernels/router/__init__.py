"""Top-k expert routing."""
