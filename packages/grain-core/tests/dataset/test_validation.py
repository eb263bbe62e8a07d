"""Iter operations accept a map dataset, which they read in order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import grain
from grain import experimental as ex

from ..helpers.pipelines import Twice

BY_INDEX = grain.MapDataset.range(4)
IN_ORDER = BY_INDEX.to_iter_dataset()


@pytest.mark.parametrize(
    "make",
    [
        lambda ds: ex.LimitIterDataset(ds, 3),
        lambda ds: ex.RepeatIterDataset(ds, 2),
        lambda ds: ex.CacheIterDataset(ds),
        lambda ds: ex.WindowShuffleIterDataset(ds, window_size=3, seed=1),
        lambda ds: ex.FlatMapIterDataset(ds, Twice()),
    ],
    ids=["limit", "repeat", "cache", "window_shuffle", "flat_map"],
)
def test_a_map_dataset_is_read_in_order(make: Callable[[Any], Any]) -> None:
    by_index, in_order = iter(make(BY_INDEX)), iter(make(IN_ORDER))
    assert by_index.get_state() == in_order.get_state()
    for element in in_order:
        assert next(by_index) == element
        assert by_index.get_state() == in_order.get_state()
    if make(IN_ORDER).known_length() is not None:
        assert len(make(BY_INDEX)) == len(make(IN_ORDER))
