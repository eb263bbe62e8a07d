"""Streams that any number of hosts share, and go on with another number of them."""
