"""Stacks: what is deployed, changed and destroyed together."""
