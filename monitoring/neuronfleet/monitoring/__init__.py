"""Rules that turn the fleet's raw series into load, rates and lengths."""
