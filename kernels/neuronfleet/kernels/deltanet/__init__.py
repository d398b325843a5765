"""Gated DeltaNet: a recurrent state a sequence in place of keys and values."""
