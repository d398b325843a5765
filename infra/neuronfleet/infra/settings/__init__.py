"""Settings: read once, judged once."""
