"""Splitting a dataset for training and validation, without shared elements."""

from __future__ import annotations

from typing import Any, TypeVar

from grain.dataset.index_transform import IndexTransformMapDataset
from grain.dataset.map import TransformMapDataset
from grain.dataset.map_dataset import MapDataset
from grain.dataset.repeat import RepeatMapDataset
from grain.dataset.seed import WithSeedMapDataset
from grain.dataset.source import RangeMapDataset, SourceMapDataset
from grain.index.permutation import IndexArray, permute
from grain.options import checked_int

T = TypeVar("T")


def train_validation_split(
    ds: MapDataset[T], *, validation: float | int, seed: int
) -> tuple[MapDataset[T], MapDataset[T]]:
    """Split a dataset at random; an element is in the same part in every epoch.

    A slice of a shuffled dataset, such as `ds.shuffle(seed)[:100]`, holds other elements in its second
    epoch, which lets validation elements into the training set. The elements of these parts are fixed;
    the parts can be shuffled and repeated.

    Args:
        ds: The dataset; split it before `repeat`.
        validation: Number of elements of the validation part, or their share of all, below 1.
        seed: Seed of the choice.

    Returns:
        The training part and the validation part.

    >>> import grain
    >>> train, validation = train_validation_split(
    ...     grain.MapDataset.range(10), validation=0.2, seed=1
    ... )
    >>> len(train), len(validation), sorted([*train, *validation]) == list(range(10))
    (8, 2, True)
    """
    if not isinstance(ds, MapDataset):
        raise TypeError(
            f"train_validation_split needs a grain.MapDataset, got {type(ds).__name__}; split "
            "before `to_iter_dataset`."
        )
    if any(isinstance(node, RepeatMapDataset) for node in _nodes(ds)):
        raise ValueError(
            "train_validation_split cannot follow `repeat`, which would put copies of an element into "
            "both parts. Split first and repeat the parts."
        )
    length = len(ds)
    count = _count(validation, length)
    seed = checked_int("seed", seed, least=0)
    if seed >= 2**32:
        # Message kept from google/grain 0.2.18
        raise ValueError(f"Seed must be an integer between 0 and 2**32-1 (got seed={seed}).")
    return (
        SplitMapDataset(ds, seed, count, length - count),
        SplitMapDataset(ds, seed, 0, count),
    )


def _count(validation: float | int, length: int) -> int:
    if isinstance(validation, float):
        if not 0 < validation < 1:
            raise ValueError(
                f"validation must be a share between 0 and 1, or a number of elements; got "
                f"{validation}."
            )
        count = round(validation * length)
    else:
        count = checked_int("validation", validation, least=1)
    if not 0 < count < length:
        raise ValueError(
            f"A validation part of {count} of {length} elements leaves one of the parts empty."
        )
    return count


def _nodes(ds: Any) -> list[Any]:
    nodes = [ds]
    for parent in ds.parents:
        nodes += _nodes(parent)
    return nodes


class SplitMapDataset(IndexTransformMapDataset[T]):
    """A contiguous range of a permutation of the whole dataset."""

    fingerprint_name = "split"

    def __init__(self, parent: MapDataset[T], seed: int, first: int, length: int):
        super().__init__(parent)
        self._seed = seed
        self._first = first
        self._length = length
        self._parent_length = len(parent)
        # Where an index has the same record in every epoch, random functions of the parent may draw
        # again in each; elsewhere all epochs are the parent's first.
        self._follows_epochs = all(
            isinstance(
                node, (SourceMapDataset, RangeMapDataset, TransformMapDataset, WithSeedMapDataset)
            )
            for node in _nodes(parent)
        )

    def __len__(self) -> int:
        return self._length

    def __str__(self) -> str:
        return f"SplitMapDataset(first={self._first}, length={self._length})"

    def _parent_indices(self, indices: IndexArray) -> IndexArray:
        epochs = indices // self._length
        within = indices - epochs * self._length + self._first
        permuted = permute(within, self._parent_length - 1, self._seed)
        return permuted + epochs * self._parent_length if self._follows_epochs else permuted

    def fingerprint_arguments(self) -> dict[str, Any]:
        return {"seed": self._seed, "first": self._first, "length": self._length}
