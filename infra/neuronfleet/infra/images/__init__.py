"""How images are built: by AWS, since synthesis needs no Docker."""
