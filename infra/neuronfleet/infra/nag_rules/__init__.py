"""The project's own rules over templates; they need no CDK."""
