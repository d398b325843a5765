"""Questions to the account, a module each; they only read."""
