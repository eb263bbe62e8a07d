"""The states of an interleave's datasets, as far as they can be judged without opening the datasets."""

from __future__ import annotations

from typing import Any

from grain.dataset.batch import BatchIterDataset
from grain.dataset.filter import FilterIterDataset
from grain.dataset.map import MapIterDataset
from grain.dataset.map_dataset import MapDataset
from grain.dataset.seed import WithOptionsIterDataset, WithSeedIterDataset
from grain.dataset.to_iter import PrefetchIterDataset

# Their states are those of their parents. Not their subclasses, which may have states of their own.
_WITH_STATES_OF_PARENT = frozenset(
    (
        BatchIterDataset,
        FilterIterDataset,
        MapIterDataset,
        WithOptionsIterDataset,
        WithSeedIterDataset,
    )
)


def surely_fits(dataset: Any, state: Any) -> bool:
    """Return whether `set_state` of the dataset's iterator certainly accepts a state.

    False means that only the iterator can tell.

    >>> import grain
    >>> numbers = grain.MapDataset.range(5).to_iter_dataset().map(str)
    >>> surely_fits(numbers, {"next_index": 3}), surely_fits(numbers, {"next_index": 6})
    (True, False)
    """
    if type(state) is not dict or type(index := state.get("next_index")) is not int:
        return False
    while (kind := type(dataset)) in _WITH_STATES_OF_PARENT:
        dataset = dataset._parents[0]
    if kind is PrefetchIterDataset:
        dataset = dataset._parents[0]
    elif not (issubclass(kind, MapDataset) and _is_read_in_order(kind)):
        return False
    return 0 <= index <= len(dataset)


def _is_read_in_order(kind: type[Any]) -> bool:
    """Return whether iterating a map dataset is what the library does, and not a method of the user."""
    return (
        kind.__iter__ is MapDataset.__iter__ and kind.to_iter_dataset is MapDataset.to_iter_dataset
    )
