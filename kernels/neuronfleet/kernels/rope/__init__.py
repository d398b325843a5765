"""Rotary position embedding of the first dimensions of a head."""
