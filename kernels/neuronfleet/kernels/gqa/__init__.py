"""Gated grouped-query attention of one new token over paged keys and values."""
