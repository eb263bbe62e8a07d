"""Two parts of a dataset, for training and validation, that never share an element."""

from __future__ import annotations

from typing import Any, TypeVar

from grain.dataset.index_transform import IndexOnlyMapDataset
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
    """Divides a dataset at random; an element is in the same part in every epoch.

    A slice of a shuffled dataset, such as `ds.shuffle(seed)[:100]`, holds other elements in its second
    epoch, and so lets validation elements into the training set. The parts made here do not: which
    elements they have is decided once. Shuffle and repeat the parts as you like.

    Args:
      ds: the dataset; split it before `repeat`.
      validation: how many elements the validation part has, or their share of all, below 1.
      seed: chooses them.

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
            "train_validation_split cannot follow `repeat`, which gives every element several times, "
            "some of them to either part. Split first and repeat the parts."
        )
    length = len(ds)
    count = _count(validation, length)
    seed = checked_int("seed", seed, least=0)
    if seed >= 2**32:
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
            f"A validation part of {count} elements leaves nothing of {length} for one of the parts."
        )
    return count


def _nodes(ds: Any) -> list[Any]:
    nodes = [ds]
    for parent in ds._parents:
        nodes += _nodes(parent)
    return nodes


class SplitMapDataset(IndexOnlyMapDataset[T]):
    """Elements that a permutation of the whole dataset puts in one stretch, in its order."""

    fingerprint_name = "split"

    def __init__(self, parent: MapDataset[T], seed: int, first: int, length: int):
        super().__init__(parent)
        self._seed = seed
        self._first = first
        self._length = length
        self._parent_length = len(parent)
        # Where an index stands for the same record in every epoch, random functions of the parent may
        # draw anew in each; elsewhere all epochs are the parent's first.
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

    def _places(self, indices: IndexArray) -> IndexArray:
        epochs = indices // self._length
        within = indices - epochs * self._length + self._first
        places = permute(within, self._parent_length - 1, self._seed)
        return places + epochs * self._parent_length if self._follows_epochs else places

    def fingerprint_arguments(self) -> dict[str, Any]:
        return {"seed": self._seed, "first": self._first, "length": self._length}
