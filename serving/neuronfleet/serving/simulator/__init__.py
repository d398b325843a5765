"""Fleets in virtual time, and the loads that are put on them."""
