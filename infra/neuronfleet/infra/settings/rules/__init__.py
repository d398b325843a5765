"""One subject a module: each yields the problems of settings, with path, value and remedy."""
