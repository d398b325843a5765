"""Root mean square normalisation, plain and zero-centred."""
