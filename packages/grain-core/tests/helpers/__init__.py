"""Helpers that the tests of the core share."""
