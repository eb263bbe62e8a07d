"""Checks that an operation gets a dataset of the right kind."""

from __future__ import annotations

from typing import Any

from grain.dataset.iter_dataset import IterDataset
from grain.dataset.map_dataset import MapDataset


def checked_iter_parent(name: str, parent: Any) -> IterDataset[Any]:
    """Return the dataset that an iter operation reads; a map dataset is converted."""
    if isinstance(parent, MapDataset):
        return parent.to_iter_dataset()
    if isinstance(parent, IterDataset):
        return parent
    raise TypeError(
        f"{name} needs a grain.IterDataset as `parent`, got {parent!r} of type "
        f"{type(parent).__name__}; `grain.MapDataset.source(...).to_iter_dataset()` makes one."
    )


def checked_map_parent(name: str, parent: Any) -> MapDataset[Any]:
    """Return the dataset that a map operation reads by index."""
    if isinstance(parent, MapDataset):
        return parent
    raise TypeError(
        f"{name} needs a grain.MapDataset as `parent`, got {parent!r} of type "
        f"{type(parent).__name__}; put it before `to_iter_dataset()`, or use its iter form."
    )
