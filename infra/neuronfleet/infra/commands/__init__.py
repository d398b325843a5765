"""What the command line does for the infrastructure; no construct is loaded here."""
