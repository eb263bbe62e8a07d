"""Datasets that are read by turns."""
