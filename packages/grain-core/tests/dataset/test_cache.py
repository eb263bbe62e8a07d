"""A cache reads its parent once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import grain
from grain.experimental import (
    CacheIterDataset,
    RepeatIterDataset,
)

from ..helpers.pipelines import INLINE, numbers


def test_cache_reads_its_parent_once() -> None:
    read: list[int] = []

    def note(x: int) -> int:
        read.append(x)
        return x

    source = grain.MapDataset.range(4).map(note).to_iter_dataset(INLINE)
    assert list(RepeatIterDataset(CacheIterDataset(source), 3)) == [0, 1, 2, 3] * 3
    assert read == [0, 1, 2, 3]


def test_cache_resumes_at_every_step_of_every_epoch(
    parent_of: Callable[..., Any], resumes: Callable[..., Any]
) -> None:
    iterator_states = []

    def make() -> Any:
        return RepeatIterDataset(CacheIterDataset(parent_of(range(4))), 3)

    for _ in iter(make()):
        iterator_states.append(1)
    assert len(iterator_states) == 12
    elements = list(make())
    # The state right after it was set may tell that the cache is not filled yet; what follows is
    # the same.
    iterator = iter(make())
    for step in range(13):
        state = iterator.get_state()
        for _ in range(2):
            fresh = iter(make())
            fresh.set_state(state)
            assert list(fresh) == elements[step:]
            fresh.set_state(state)
            assert list(fresh) == elements[step:]
        if step < 12:
            next(iterator)


def test_each_iterator_of_a_cache_has_its_own() -> None:
    ds = CacheIterDataset(numbers(3))
    one, two = iter(ds), iter(ds)
    assert [next(one), next(one), next(two)] == [0, 1, 0]
    assert list(one) == [2]
    assert list(two) == [1, 2]
    assert len(ds) == 3
