"""Plugins as their entry points name them: one module each, one fault each."""
