"""Concatenation of map datasets."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any, TypeVar

from grain.dataset.combined import CombinedReader, combine
from grain.dataset.map_dataset import MapDataset
from grain.dataset.node import computed_once
from grain.dataset.selection import ManyParentsMapDataset, checked_parents
from grain.index.permutation import IndexArray
from grain.index.slicing import Concatenation

T = TypeVar("T")


class ConcatenateMapDataset(ManyParentsMapDataset[T]):
    """Datasets in sequence; each epoch has the elements of all of them."""

    fingerprint_name = "concatenate"

    def written_call(self) -> str:
        return "MapDataset.concatenate()"

    def __init__(self, datasets: Sequence[MapDataset[T]]):
        super().__init__(checked_parents(datasets, MapDataset, "concatenate"))
        lengths = [len(dataset) for dataset in datasets]
        if lengths and max(lengths) >= sys.maxsize:
            dataset = datasets[lengths.index(max(lengths))]
            # Message kept from google/grain 0.2.18
            raise ValueError(f"Cannot concatenate infinite datasets. {dataset} is infinite.")
        self._length = Concatenation(lengths).length

    def __len__(self) -> int:
        return self._length

    @computed_once
    def _parts(self) -> tuple[list[MapDataset[T]], Concatenation]:
        """Return the datasets that are not concatenations themselves, in order, and how they are joined."""
        parts: list[MapDataset[T]] = []
        stack: list[MapDataset[T]] = [*reversed(self._parents)]
        while stack:
            part = stack.pop()
            if type(part) is ConcatenateMapDataset:
                stack.extend(reversed(part.parents))
            else:
                parts.append(part)
        return parts, Concatenation([len(part) for part in parts])

    @computed_once
    def _reader(self) -> CombinedReader:
        return combine(self._parts[0])

    def __getstate__(self) -> dict[str, Any]:
        state = super().__getstate__()
        state.pop("_parts", None)
        return state

    def select(self, indices: IndexArray) -> tuple[IndexArray, IndexArray]:
        return self._parts[1].select(indices)

    def select_one(self, index: int) -> tuple[int, int]:
        return self._parts[1].select_one(index)
