"""Datasets that hold a seed or options for other operations, and leave elements unchanged."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from grain.dataset.context import current_context, iteration_context
from grain.dataset.entry_points import observation
from grain.dataset.index_transform import IndexTransformMapDataset
from grain.dataset.iter_dataset import IterDataset, TransparentIterDataset
from grain.dataset.iterator import DatasetIterator
from grain.dataset.map_dataset import MapDataset
from grain.index.permutation import IndexArray
from grain.options import (
    DatasetOptions,
    ExecutionTrackingMode,
    ObservationOptions,
    checked_int,
)

T = TypeVar("T")


class WithSeedMapDataset(IndexTransformMapDataset[T]):
    """The parent's elements, with a seed for the random operations that follow."""

    def __init__(self, parent: MapDataset[T], seed: int | None):
        super().__init__(parent)
        self.own_seed = None if seed is None else checked_int("seed", seed, least=0)

    fingerprint_name = "seed"

    def fingerprint_arguments(self) -> dict[str, Any]:
        return {"seed": self.own_seed}

    def __len__(self) -> int:
        return len(self._parent)

    def __str__(self) -> str:
        return "WithOptionsMapDataset"

    def _parent_indices(self, indices: IndexArray) -> IndexArray:
        return indices

    def _parent_index(self, index: int) -> int:
        return index


class WithSeedIterDataset(TransparentIterDataset[T]):
    """The parent's elements, with a seed for the random operations that follow."""

    fingerprint_name = "seed"

    def __init__(self, parent: IterDataset[T], seed: int | None):
        super().__init__(parent)
        self.own_seed = None if seed is None else checked_int("seed", seed, least=0)

    def __str__(self) -> str:
        return "WithOptionsIterDataset"

    def fingerprint_arguments(self) -> dict[str, Any]:
        return {"seed": self.own_seed}


class WithOptionsIterDataset(TransparentIterDataset[T]):
    """The parent's elements, read with given options; options given further upstream win."""

    def __init__(self, parent: IterDataset[T], options: DatasetOptions):
        super().__init__(parent)
        if not isinstance(options, DatasetOptions):
            raise TypeError(
                f"options must be a grain.experimental.DatasetOptions, got {options!r} of type "
                f"{type(options).__name__}."
            )
        self._options = options
        if options.execution_tracking_mode is ExecutionTrackingMode.STAGE_TIMING:
            self.observation_options = ObservationOptions()
            observation().enable()

    def __str__(self) -> str:
        return f"WithOptionsIterDataset(options={self._options})"

    def make_parent_iterators(
        self, make: Callable[[Any], DatasetIterator[Any]]
    ) -> list[DatasetIterator[Any]]:
        context = current_context()
        merged = context.options.merge(self._options)
        with iteration_context(context._replace(options=merged)):
            return super().make_parent_iterators(make)
