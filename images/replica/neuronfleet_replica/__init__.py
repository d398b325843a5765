"""What runs in a replica's pod: the server's start, its canary, its drain."""
