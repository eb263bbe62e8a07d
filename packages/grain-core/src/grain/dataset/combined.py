"""Many datasets of one kind read as one: an array operation instead of a call per dataset.

An operation with many parents (`concatenate`, `mix`, `zip`) reads few elements of each of them at a time. If
the parents are nodes of one class, and so are their parents, their arguments (lengths, seeds, functions) are
put into arrays once, and elements of all of them are then read together. A node class takes part by a class
method `combine(nodes)`, which returns a `CombinedReader` or None.
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from grain.dataset.gather import gather, gather_columns
from grain.index.permutation import IndexArray

# With more elements per dataset than this, one read per dataset is faster.
_FEW_ELEMENTS = 32


class CombinedReader(abc.ABC):
    """Reads elements of many datasets.

    Attributes:
        nodes: The datasets.
    """

    def __init__(self, nodes: Sequence[Any]):
        self.nodes = nodes

    @abc.abstractmethod
    def read_many(self, chosen: IndexArray, indices: IndexArray) -> list[Any]:
        """Return element `indices[i]` of dataset `chosen[i]` for each i, or a `PartialRead`."""

    def read_columns(self, chosen: IndexArray, indices: IndexArray) -> Any:
        """Return the same elements as stacked arrays, or None to make `read_many` decide."""
        return gather_columns(self.nodes, chosen, indices)


class SeparateReader(CombinedReader):
    """Reads each dataset by itself."""

    def read_many(self, chosen: IndexArray, indices: IndexArray) -> list[Any]:
        return gather(self.nodes, chosen, indices)


class ReindexedReader(CombinedReader):
    """Reads the parents of the datasets at other indices.

    Args:
        nodes: The datasets, each with one parent.
        transform: Function of `chosen` and `indices` that returns the parents' indices.
    """

    def __init__(
        self, nodes: Sequence[Any], transform: Callable[[IndexArray, IndexArray], IndexArray]
    ):
        super().__init__(nodes)
        self._transform = transform
        self._parents = combine([node.parents[0] for node in nodes])

    def read_many(self, chosen: IndexArray, indices: IndexArray) -> list[Any]:
        return self._parents.read_many(chosen, self._transform(chosen, indices))

    def read_columns(self, chosen: IndexArray, indices: IndexArray) -> Any:
        return self._parents.read_columns(chosen, self._transform(chosen, indices))


def combine(nodes: Sequence[Any]) -> CombinedReader:
    """Return the fastest reader of elements of several datasets."""
    kind = type(nodes[0])
    # A subclass may read differently, so it takes part only with its own method.
    method = vars(kind).get("combine")
    if method is not None and all(type(node) is kind for node in nodes):
        reader: CombinedReader | None = kind.combine(nodes)
        if reader is not None:
            return reader
    return SeparateReader(nodes)


def read_scattered(reader: CombinedReader, chosen: IndexArray, indices: IndexArray) -> list[Any]:
    """Read together if there are few elements of each dataset, otherwise dataset by dataset."""
    if _are_scattered(reader, chosen):
        return reader.read_many(chosen, indices)
    return gather(reader.nodes, chosen, indices)


def read_scattered_columns(reader: CombinedReader, chosen: IndexArray, indices: IndexArray) -> Any:
    """Return the same elements as stacked arrays, or None."""
    if _are_scattered(reader, chosen):
        return reader.read_columns(chosen, indices)
    return gather_columns(reader.nodes, chosen, indices)


def _are_scattered(reader: CombinedReader, chosen: IndexArray) -> bool:
    if not chosen.size or isinstance(reader, SeparateReader) or (chosen == chosen[0]).all():
        return False
    in_order = np.sort(chosen)
    distinct = 1 + np.count_nonzero(in_order[1:] != in_order[:-1])
    return bool(chosen.size < _FEW_ELEMENTS * distinct)
