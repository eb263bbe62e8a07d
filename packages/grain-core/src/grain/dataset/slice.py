"""Slices of a dataset, and selections of elements by index."""

from __future__ import annotations

import abc
import builtins
from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np

from grain.dataset.combined import CombinedReader, ReindexedReader
from grain.dataset.index_transform import IndexTransformMapDataset
from grain.dataset.map_dataset import MapDataset, as_index, read_each
from grain.index.permutation import IndexArray
from grain.index.slicing import pick_indices, reaches_far, slice_indices, slice_length

T = TypeVar("T")


def slice_map_dataset(
    parent: MapDataset[T], selection: builtins.slice | Sequence[int]
) -> MapDataset[T]:
    """Return the dataset that a slice or a sequence of indices selects."""
    if isinstance(selection, builtins.slice):
        return SliceMapDataset(parent, selection)
    indices = isinstance(selection, Sequence) or hasattr(selection, "__array__")
    if isinstance(selection, (str, bytes, np.generic)) or not indices:
        # Message kept from google/grain 0.2.18
        raise ValueError(
            f"sl is not a slice: {type(selection)}. Pass a slice or a sequence of integers."
        )
    return PickMapDataset(parent, selection)


class _SelectionMapDataset(IndexTransformMapDataset[T]):
    """A selection of the parent's elements; later epochs are taken from the parent's.

    The second epoch of a selection of an endless dataset has indices beyond 64 bits, which are read one by
    one, as Python integers.
    """

    _parent_length: int

    @abc.abstractmethod
    def _in_first_epoch(self, index: int) -> int:
        """Return the parent's index of an element of the first epoch."""

    def _parent_index(self, index: int) -> int:
        epoch, within = divmod(index, len(self))
        return self._in_first_epoch(within) + epoch * self._parent_length

    def read_one(self, index: int) -> Any:
        return self._parents[0].read_one(self._parent_index(index))

    def read_many(self, indices: IndexArray) -> list[Any]:
        if reaches_far(indices, len(self), self._parent_length):
            return read_each(self, indices.tolist())
        return super().read_many(indices)

    def read_columns(self, indices: IndexArray) -> Any:
        if reaches_far(indices, len(self), self._parent_length):
            return None
        return super().read_columns(indices)


class SliceMapDataset(_SelectionMapDataset[T]):
    """Every `step`-th element from `start` to `stop`; later epochs are taken from the parent's."""

    fingerprint_name = "slice"
    may_end_early = True

    def __init__(self, parent: MapDataset[T], sl: builtins.slice):
        super().__init__(parent)
        self._parent_length = len(parent)
        self._start, self._stop, self._step = sl.indices(self._parent_length)
        self._length = slice_length(self._start, self._stop, self._step)

    def __len__(self) -> int:
        return self._length

    def __str__(self) -> str:
        return f"SliceMapDataset[{self._start}:{self._stop}:{self._step}]"

    def _parent_indices(self, indices: IndexArray) -> IndexArray:
        return slice_indices(indices, self._start, self._step, self._length, self._parent_length)

    def _in_first_epoch(self, index: int) -> int:
        return self._start + index * self._step

    @classmethod
    def combine(cls, nodes: Sequence[SliceMapDataset[Any]]) -> CombinedReader | None:
        values = [(node._start, node._step, len(node), len(node.parents[0])) for node in nodes]
        columns: IndexArray = np.array(values, dtype=np.int64).T
        starts, steps, lengths, parent_lengths = columns
        if int(parent_lengths.max()) > 2**40:  # Indices of later epochs may not fit into 64 bits.
            return None

        def parent_indices(chosen: IndexArray, indices: IndexArray) -> IndexArray:
            epochs = indices // lengths[chosen]
            within = indices - epochs * lengths[chosen]
            in_epoch: IndexArray = starts[chosen] + within * steps[chosen]
            in_epoch += epochs * parent_lengths[chosen]
            return in_epoch

        return ReindexedReader(nodes, parent_indices)

    def fingerprint_arguments(self) -> dict[str, Any]:
        start, stop, step = self._start, self._stop, self._step
        # A slice to the end stays the same when the source grows.
        end = None if step > 0 and stop == self._parent_length else stop
        return {"start": start or None, "stop": end, "step": None if step == 1 else step}

    def written_call(self) -> str:
        given = self.fingerprint_arguments()
        start, stop, step = ("" if value is None else value for value in given.values())
        return f"[{start}:{stop}:{step}]" if step != "" else f"[{start}:{stop}]"


class PickMapDataset(_SelectionMapDataset[T]):
    """The elements at given indices, in the order given, repeats included."""

    fingerprint_name = "slice"
    may_end_early = True

    def __init__(self, parent: MapDataset[T], picked: Sequence[int]):
        super().__init__(parent)
        self._parent_length = length = len(parent)
        numbers = []
        for index in picked:
            if isinstance(index, bool):
                raise TypeError(
                    "`slice` takes a slice or the indices of elements, got a mask of booleans; "
                    "`numpy.flatnonzero(mask)` gives the indices."
                )
            numbers.append(as_index(index, parent))
        for number in numbers:
            if not -length <= number < length:
                raise IndexError(f"Index {number} is out of range for {parent} of length {length}.")
        self._picked = np.array([number % length for number in numbers], dtype=np.int64)

    def __len__(self) -> int:
        return int(self._picked.size)

    def __str__(self) -> str:
        return f"PickMapDataset[{self._picked.size} of {self._parent_length}]"

    def _parent_indices(self, indices: IndexArray) -> IndexArray:
        return pick_indices(indices, self._picked, self._parent_length)

    def _in_first_epoch(self, index: int) -> int:
        return int(self._picked[index])

    def fingerprint_arguments(self) -> dict[str, Any]:
        return {"picked": self._picked}
