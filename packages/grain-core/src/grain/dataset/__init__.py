"""Datasets: what a pipeline is. Each operation has a file with its map form, its iter form and its state."""

from grain.dataset.base import DatasetIterator, IterDataset, MapDataset

__all__ = ["DatasetIterator", "IterDataset", "MapDataset"]
