"""Aliases; see `grain._src`."""

from grain._src.aliases import names_of

__getattr__, __dir__ = names_of(__name__)
