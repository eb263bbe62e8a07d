"""Epochs: one dataset for each.

A dataset is a value: every iterator of it yields the same order and the same random draws. A loop over
epochs needs a dataset for each of them, or one that repeats.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator
from typing import Any, TypeVar

import numpy as np

from grain.dataset import same_epoch
from grain.dataset.index_transform import IndexTransformMapDataset
from grain.dataset.map_dataset import MapDataset
from grain.index.permutation import IndexArray
from grain.options import checked_int

T = TypeVar("T")
D = TypeVar("D")


def epochs(dataset: D, num_epochs: int | None, first: int) -> Iterator[D]:
    """Yield the dataset of each epoch, from `first` on."""
    first = checked_int("first", first, least=0)
    if num_epochs is not None:
        num_epochs = checked_int("num_epochs", num_epochs, least=1)
    node: Any = dataset
    node.for_epoch(1)  # Raises before the first epoch what the second would.
    numbers = itertools.count(first) if num_epochs is None else range(first, num_epochs)
    same_epoch.start_over(node)
    return map(node.for_epoch, numbers)


def epoch_seed(seed: int, epoch: int) -> int:
    """Return the seed of a random operation of a stream in an epoch.

    >>> epoch_seed(3, 0), epoch_seed(3, 1) == epoch_seed(3, 1) != epoch_seed(3, 2)
    (3, True)
    """
    return seed if not epoch else int(np.random.SeedSequence([seed, epoch]).generate_state(1)[0])


class EpochMapDataset(IndexTransformMapDataset[T]):
    """One epoch of a map dataset: the elements that `repeat` has in that epoch."""

    fingerprint_name = "epoch"

    def __init__(self, parent: MapDataset[T], epoch: int):
        super().__init__(parent)
        self._length = len(parent)
        self._epoch = epoch
        if self._length >= sys.maxsize:
            raise ValueError(
                f"`epochs` of {parent}, which repeats without end: call `epochs` instead of `repeat`."
            )

    def __len__(self) -> int:
        return self._length

    def __str__(self) -> str:
        return f"EpochMapDataset(epoch={self._epoch})"

    def _parent_indices(self, indices: IndexArray) -> IndexArray:
        return indices + self._epoch * self._length

    def _parent_index(self, index: int) -> int:
        return index + self._epoch * self._length

    def fingerprint_arguments(self) -> dict[str, Any]:
        return {"number": self._epoch}
