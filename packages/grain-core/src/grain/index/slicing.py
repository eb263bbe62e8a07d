"""Slices and concatenations: the parent index of each of their elements."""

from __future__ import annotations

import functools
import itertools
import sys
from bisect import bisect_right
from collections.abc import Sequence

import numpy as np

from grain.index.permutation import IndexArray


def slice_length(start: int, stop: int, step: int) -> int:
    """Return the number of elements of `range(start, stop, step)`.

    >>> slice_length(1, 8, 3)
    3
    """
    return len(range(start, stop, step))


def slice_indices(
    indices: IndexArray, start: int, step: int, length: int, parent_length: int
) -> IndexArray:
    """Return the parent's index of each element of a slice; epochs map to the parent's epochs.

    >>> slice_indices(np.arange(6), start=1, step=3, length=3, parent_length=8).tolist()
    [1, 4, 7, 9, 12, 15]
    """
    epochs = indices // length
    return start + (indices - epochs * length) * step + epochs * parent_length


def reaches_far(indices: IndexArray, length: int, parent_length: int) -> bool:
    """Return whether an index in the parent of a selection may not fit into 64 bits.

    >>> reaches_far(np.arange(8), length=4, parent_length=2**62 + 1)
    True
    """
    if not indices.size:
        return False
    epochs = max(int(indices.max()) // length + 1, -(int(indices.min()) // length))
    return epochs * parent_length > 2**63


def pick_indices(indices: IndexArray, picked: IndexArray, parent_length: int) -> IndexArray:
    """Return the parent's index of each element of an explicit selection.

    >>> pick_indices(np.arange(4), picked=np.array([5, 0]), parent_length=8).tolist()
    [5, 0, 13, 8]
    """
    epochs = indices // picked.size
    selected: IndexArray = picked[indices - epochs * picked.size] + epochs * parent_length
    return selected


class Concatenation:
    """Datasets laid end to end; epoch e of the whole is epoch e of every part.

    >>> parts, elements = Concatenation([2, 1]).select(np.arange(6))
    >>> parts.tolist(), elements.tolist()
    ([0, 0, 1, 0, 0, 1], [0, 1, 0, 2, 3, 1])
    """

    def __init__(self, lengths: Sequence[int]):
        self.length = sum(lengths)
        if self.length > sys.maxsize:
            raise ValueError(
                f"Parts of lengths {list(lengths)} have {self.length} elements together, more than the "
                f"maximum of {sys.maxsize}."
            )
        self._lengths = lengths

    @functools.cached_property
    def _arrays(self) -> tuple[IndexArray, IndexArray, IndexArray]:
        """The length, start and end of each part."""
        lengths = np.asarray(self._lengths, dtype=np.int64)
        ends = np.cumsum(lengths)
        return lengths, ends - lengths, ends

    @functools.cached_property
    def _ends(self) -> list[int]:
        return list(itertools.accumulate(self._lengths))

    def select(self, indices: IndexArray) -> tuple[IndexArray, IndexArray]:
        """Return the part of each element, and its index in that part."""
        lengths, starts, ends = self._arrays
        epochs = indices // self.length
        within = indices - epochs * self.length
        parts = np.searchsorted(ends, within, side="right")
        elements = within - starts[parts] + epochs * lengths[parts]
        return parts, elements

    def select_one(self, index: int) -> tuple[int, int]:
        """Return the part of one element, and its index in that part.

        >>> Concatenation([2, 1]).select_one(4)
        (0, 3)
        """
        epoch, within = divmod(index, self.length)
        part = bisect_right(self._ends, within)
        length = self._lengths[part]
        return part, within - self._ends[part] + length + epoch * length
