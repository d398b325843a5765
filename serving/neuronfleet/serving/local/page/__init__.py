"""The web page of the fleets that run on this machine."""
