"""Base classes by which other programs recognise datasets without importing grain.

Keras takes an object for a dataset of grain if a class in its method resolution order is called `MapDataset`
or `IterDataset` and lies in a module below `grain._src.python`.
"""

from __future__ import annotations

_HOME = "grain._src.python.dataset.dataset"


class RecognisedMapDataset:
    """A class that is recognised as that of a map dataset."""

    __slots__ = ()


class RecognisedIterDataset:
    """A class that is recognised as that of an iter dataset."""

    __slots__ = ()


for _marker in (RecognisedMapDataset, RecognisedIterDataset):
    _marker.__name__ = _marker.__qualname__ = _marker.__name__.removeprefix("Recognised")
    _marker.__module__ = _HOME
