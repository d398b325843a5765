"""Helm charts that are installed: each pinned, with the values that are set and their schema."""
