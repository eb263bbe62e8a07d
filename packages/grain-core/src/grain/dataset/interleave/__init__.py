"""Datasets that are read interleaved."""
