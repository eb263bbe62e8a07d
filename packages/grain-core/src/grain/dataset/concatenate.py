"""Concatenation of map datasets."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TypeVar

from grain.dataset.map_dataset import MapDataset
from grain.dataset.selection import ManyParentsMapDataset, checked_parents
from grain.index.permutation import IndexArray
from grain.index.slicing import Concatenation

T = TypeVar("T")


class ConcatenateMapDataset(ManyParentsMapDataset[T]):
    """Datasets in sequence; each epoch has the elements of all of them."""

    fingerprint_name = "concatenate"

    def __init__(self, datasets: Sequence[MapDataset[T]]):
        super().__init__(checked_parents(datasets, MapDataset, "concatenate"))
        for dataset in datasets:
            if len(dataset) >= sys.maxsize:
                # Message kept from google/grain 0.2.18
                raise ValueError(f"Cannot concatenate infinite datasets. {dataset} is infinite.")
        self._joined = Concatenation([len(dataset) for dataset in datasets])

    def __len__(self) -> int:
        return self._joined.length

    def select(self, indices: IndexArray) -> tuple[IndexArray, IndexArray]:
        return self._joined.select(indices)
