"""Repetition: several epochs, or endlessly many."""

from __future__ import annotations

import sys
from typing import TypeVar

from grain.dataset.base import MapDataset
from grain.dataset.index_transform import IndexOnlyMapDataset
from grain.index.permutation import IndexArray
from grain.options import checked_int

T = TypeVar("T")


class RepeatMapDataset(IndexOnlyMapDataset[T]):
    """The parent's epochs one after the other, each anew or all like the first."""

    def __init__(
        self, parent: MapDataset[T], num_epochs: int | None = None, reseed_each_epoch: bool = True
    ):
        super().__init__(parent)
        length = len(parent)
        if num_epochs is not None:
            num_epochs = checked_int("num_epochs", num_epochs, least=-(2**63))
            if num_epochs <= 0:
                raise ValueError(f"num_epochs must be positive, but got {num_epochs}.")
        if length >= sys.maxsize:
            raise ValueError(f"Repeating already infinite dataset {parent} does nothing.")
        self._num_epochs = num_epochs
        self._reseed = reseed_each_epoch
        self._parent_length = length
        endless = sys.maxsize if length else 0
        self._length = endless if num_epochs is None else min(num_epochs * length, sys.maxsize)

    def __len__(self) -> int:
        return self._length

    def __str__(self) -> str:
        return f"RepeatMapDataset(num_epochs={self._num_epochs})"

    def _places(self, indices: IndexArray) -> IndexArray:
        return indices if self._reseed else indices % self._parent_length
