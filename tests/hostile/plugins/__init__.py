"""Hostile plugins, named by entry points `module:object`, with one fault each."""
