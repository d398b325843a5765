"""Decoder blocks assembled from the ops."""
