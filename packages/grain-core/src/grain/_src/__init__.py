"""Names of google/grain's private modules that other programs import, for the public objects here.

Programs import names such as `grain._src.python.samplers.IndexSampler`. Each is listed in `aliases.py` with
the object it stands for, which is imported on first use; modules of this package that have no file are made
from that list. New code needs none of this: the public names are in `grain`.
"""

from grain._src.aliases import install, names_of

install()
__getattr__, __dir__ = names_of(__name__)
