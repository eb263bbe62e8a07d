"""The base of operations that only map indices to indices of the parent."""

from __future__ import annotations

import abc
from collections.abc import Sequence
from typing import Any, TypeVar

from grain.dataset.map_dataset import IndexedMapDataset, MapDataset, array_of_one
from grain.dataset.node import computed
from grain.index.permutation import IndexArray

T = TypeVar("T")


class IndexTransformMapDataset(IndexedMapDataset[T]):
    """A dataset whose elements are elements of its one parent, at other indices."""

    preserves_elements = True

    @abc.abstractmethod
    def _parent_indices(self, indices: IndexArray) -> IndexArray:
        """Return the parent's index of each element."""

    def _parent_index(self, index: int) -> int:
        """Return the parent's index of one element."""
        return int(self._parent_indices(array_of_one(index))[0])

    def origins(self, index: int) -> Sequence[tuple[MapDataset[Any], int]]:
        return [(self._parent, self._parent_index(index))]

    def read_one(self, index: int) -> Any:
        return self._parents[0].read_one(self._parent_index(index))

    def read_many(self, indices: IndexArray) -> list[Any]:
        if not indices.size:
            return []
        elements: list[Any] = self._parent.read_many(self._parent_indices(indices))
        return elements

    def read_columns(self, indices: IndexArray) -> Any:
        return self._parent.read_columns(self._parent_indices(indices)) if indices.size else None

    @computed
    def is_columnar(self) -> bool:
        return bool(self._parent.is_columnar)

    @computed
    def is_sparse(self) -> bool:
        return bool(self._parents[0].is_sparse)

    @computed
    def is_dense(self) -> bool:
        return bool(self._parent.is_dense)
