"""Plugins installed in virtual environments, to test that a faulty plugin breaks no other."""
