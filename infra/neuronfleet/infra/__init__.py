"""What the project provisions on AWS."""
