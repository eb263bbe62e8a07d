"""Single reads `ds[i]`: past the end, below zero, far away, through every operation."""

from __future__ import annotations

from typing import Any

import numpy as np

import grain

from ..registry import value
from .common import (
    Map,
    add_one,
    append_draw,
    as_tree,
    index_and_element,
    is_even,
    is_third,
)

_NEAR_AND_FAR = (0, 1, 9, 10, 25, -1, -2, -10, -11, -35, 10**6, 10**9 + 3, 10**12, -(10**6))


def _read(ds: grain.MapDataset, places: Any = _NEAR_AND_FAR) -> list[Any]:
    return [ds[place] for place in places]


@value
def read_range() -> Any:
    return _read(Map.range(10)) + _read(Map.range(3, 33, 3))


@value
def read_source() -> Any:
    return _read(Map.source("abcdefghij")) + _read(Map.source(np.arange(10, dtype=np.int16)))


@value
def read_shuffle() -> Any:
    return _read(Map.range(10).shuffle(1))


@value
def read_seeded_shuffle() -> Any:
    return _read(Map.range(10).seed(3).shuffle().map(add_one).shuffle())


@value
def read_repeat() -> Any:
    return [_read(Map.range(10).shuffle(1).repeat(epochs)) for epochs in (1, 2, None)]


@value
def read_repeat_without_reseeding() -> Any:
    return _read(Map.range(10).shuffle(1).repeat(2, reseed_each_epoch=False))


@value
def read_slices() -> Any:
    ds = Map.range(20).shuffle(1)
    return [
        _read(ds[sl])
        for sl in (slice(2, 12), slice(None, None, -2), slice(-1, None), slice(19, 0, -3))
    ]


@value
def read_slice_of_slice() -> Any:
    return _read(Map.range(100).shuffle(4)[10:90:3][::-2])


@value
def read_slice_of_repeat() -> Any:
    return _read(Map.range(10).shuffle(1).repeat(3)[4:27:5], (0, 1, 4, 5, 9, -1, -5, -6))


@value
def read_concatenation() -> Any:
    ds = Map.concatenate(
        [Map.range(4).shuffle(1), Map.range(100, 103), Map.range(200, 205).shuffle(2)]
    )
    return _read(ds)


@value
def read_mix() -> Any:
    ds = Map.mix([Map.range(10).shuffle(1), Map.range(100, 110).shuffle(2)], [0.75, 0.25])
    return _read(ds)


@value
def read_filter() -> Any:
    return _read(Map.range(10).filter(is_third).map(add_one))


@value
def read_two_filters() -> Any:
    return _read(Map.range(12).filter(is_third).filter(is_even), range(14))


@value
def read_random_map() -> Any:
    return _read(
        Map.range(10).shuffle(1).random_map(append_draw, seed=5), (0, 1, 9, 10, 25, 10**6, 10**12)
    )


@value
def read_map_with_index() -> Any:
    return _read(Map.range(10).shuffle(1).map_with_index(index_and_element))


@value
def read_map_with_index_after_filter() -> Any:
    return _read(Map.range(10).filter(is_even).map_with_index(index_and_element))


@value
def read_batch() -> Any:
    return _read(Map.range(10).shuffle(1).batch(4), (0, 1, 2, 3, 4, 5, -1, -2, -4, 10**6))


@value
def read_batch_drop_remainder() -> Any:
    ds = Map.range(10).shuffle(1).batch(4, drop_remainder=True)
    return _read(ds, (0, 1, 2, 3, 4, -1, -2, -3))


@value
def read_batch_of_trees() -> Any:
    return _read(Map.range(10).map(as_tree).batch(3), (0, 3, 4, 7, -1))


@value
def read_batch_of_repeat() -> Any:
    return _read(Map.range(5).shuffle(1).repeat(2).batch(3), (0, 1, 2, 3, 4, -1))


@value
def read_repeat_of_batch() -> Any:
    return _read(Map.range(5).shuffle(1).batch(3).repeat(2), (0, 1, 2, 3, 4, -1))
