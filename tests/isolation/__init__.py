"""Plugins installed for real, each in an environment made for the test: who breaks whom."""
