"""Advice for a method that is called on the wrong kind of dataset."""

from __future__ import annotations

from grain.dataset.iter_dataset import IterDataset
from grain.dataset.iterator import DatasetIterator
from grain.dataset.map_dataset import MapDataset


def advice(kind: type, name: str) -> str | None:
    """Return how to call the public method `name`, which `kind` lacks; None if no class has it."""
    if name.startswith("_"):
        return None
    if issubclass(kind, MapDataset) and hasattr(IterDataset, name):
        return f"`{name}` is for an IterDataset, so call `to_iter_dataset()` before it."
    if issubclass(kind, IterDataset) and hasattr(MapDataset, name):
        if name == "to_iter_dataset":
            return "it is an IterDataset already."
        return f"`{name}` is for a MapDataset, so call it before `to_iter_dataset()`."
    if hasattr(DatasetIterator, name):
        return (
            f"`{name}` is for an iterator, so make one with `iterator = iter(ds)` and keep it: the "
            "iterator has the position, the dataset has none."
        )
    return None
