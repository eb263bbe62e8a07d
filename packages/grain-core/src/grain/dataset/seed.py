"""Datasets that hold a seed or options for the operations around them, and leave elements alone."""

from __future__ import annotations

from typing import Any, TypeVar

from grain.dataset.base import DatasetIterator, IterDataset, MapDataset
from grain.dataset.context import current_context, iteration_context
from grain.dataset.index_transform import IndexOnlyMapDataset
from grain.index.permutation import IndexArray
from grain.options import DatasetOptions, checked_int

T = TypeVar("T")


class WithSeedMapDataset(IndexOnlyMapDataset[T]):
    """The parent's elements, with a seed for the random operations that follow."""

    def __init__(self, parent: MapDataset[T], seed: int | None):
        super().__init__(parent)
        self._own_seed = None if seed is None else checked_int("seed", seed, least=0)

    def __len__(self) -> int:
        return len(self._parent)

    def __str__(self) -> str:
        return "WithOptionsMapDataset"

    def _places(self, indices: IndexArray) -> IndexArray:
        return indices


class WithSeedIterDataset(IterDataset[T]):
    """The parent's elements, with a seed for the random operations that follow."""

    def __init__(self, parent: IterDataset[T], seed: int | None):
        super().__init__(parent)
        self._own_seed = None if seed is None else checked_int("seed", seed, least=0)

    def __iter__(self) -> DatasetIterator[T]:
        iterator: DatasetIterator[T] = self._parent.__iter__()
        return iterator

    def __str__(self) -> str:
        return "WithOptionsIterDataset"

    def _length(self) -> int | None:
        return _known_length(self._parent)


class WithOptionsIterDataset(IterDataset[T]):
    """The parent's elements, read with given options; those given further down win."""

    def __init__(self, parent: IterDataset[T], options: DatasetOptions):
        super().__init__(parent)
        if not isinstance(options, DatasetOptions):
            raise TypeError(
                f"options must be a grain.experimental.DatasetOptions, got {options!r} of type "
                f"{type(options).__name__}."
            )
        self._options = options

    def __iter__(self) -> DatasetIterator[T]:
        context = current_context()
        merged = context.options.merge(self._options)
        with iteration_context(type(context)(options=merged, executor=context.executor)):
            iterator: DatasetIterator[T] = self._parent.__iter__()
        return iterator

    def __str__(self) -> str:
        return f"WithOptionsIterDataset(options={self._options})"

    def _length(self) -> int | None:
        return _known_length(self._parent)


def _known_length(dataset: Any) -> int | None:
    length: int | None = dataset._length()
    return length
