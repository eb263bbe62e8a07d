"""Sequences put together into rows of a fixed length."""
