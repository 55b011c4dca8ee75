"""Merges the recordings of many ranks into one trace."""
