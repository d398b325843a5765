"""Mixture of experts: the routed ones, and the shared one behind its gate."""
