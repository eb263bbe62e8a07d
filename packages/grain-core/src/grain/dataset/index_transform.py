"""The common part of operations that only say where an element lies in the parent."""

from __future__ import annotations

import abc
from typing import Any, TypeVar

from grain.dataset.base import IndexedMapDataset
from grain.index.permutation import IndexArray

T = TypeVar("T")


class IndexOnlyMapDataset(IndexedMapDataset[T]):
    """A dataset whose elements are elements of its one parent, elsewhere."""

    @abc.abstractmethod
    def _places(self, indices: IndexArray) -> IndexArray:
        """The parent's index of each element."""

    def _read(self, indices: IndexArray) -> list[Any]:
        if not indices.size:
            return []
        elements: list[Any] = self._parent._read(self._places(indices))
        return elements

    def _columns(self, indices: IndexArray) -> Any:
        return self._parent._columns(self._places(indices)) if indices.size else None

    @property
    def _columnar(self) -> bool:
        return bool(self._parent._columnar)

    @property
    def _dense(self) -> bool:
        return bool(self._parent._dense)
