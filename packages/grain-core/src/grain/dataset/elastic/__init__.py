"""Streams that any number of hosts share, resumable with another number of hosts."""
