"""Aliases; see `grain._src`.

This folder is also part of the file names of functions that call user code; see `grain._user_code`.
"""

from grain._src.aliases import names_of

__getattr__, __dir__ = names_of(__name__)
