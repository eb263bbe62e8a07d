"""Random access to iterators whose position can be computed from an element index."""

from __future__ import annotations

from typing import Any

from grain.dataset.iterator import DatasetIterator


def get_next_index(ds_iter: DatasetIterator[Any]) -> int:
    """Return the index of the next element.

    Defined for map datasets and operations that keep the number of elements or change it regularly, such
    as `map`, `random_map` and `batch`.

    >>> import grain
    >>> iterator = iter(grain.MapDataset.range(9).to_iter_dataset().batch(2))
    >>> _ = next(iterator)
    >>> get_next_index(iterator)
    1
    """
    _check(ds_iter)
    own = getattr(ds_iter, "_get_next_index", None)
    if own is not None:
        return int(own())
    return ds_iter.index_from_state(ds_iter.get_state())


def set_next_index(ds_iter: DatasetIterator[Any], index: int) -> None:
    """Move an iterator to the element at `index`, without reading the elements before it.

    >>> import grain
    >>> iterator = iter(grain.MapDataset.range(9).to_iter_dataset().batch(2))
    >>> set_next_index(iterator, 3)
    >>> next(iterator)
    array([6, 7])
    """
    _check(ds_iter)
    if isinstance(index, bool) or not hasattr(index, "__index__"):
        raise TypeError(f"index must be an integer, got {index!r} of type {type(index).__name__}.")
    own = getattr(ds_iter, "_set_next_index", None)
    if own is not None:
        own(index)
    else:
        ds_iter.set_state(ds_iter.state_from_index(index.__index__()))


def _check(iterator: Any) -> None:
    if not isinstance(iterator, DatasetIterator):
        raise TypeError(
            f"Expected a grain.DatasetIterator, got {iterator!r} of type {type(iterator).__name__}."
        )
