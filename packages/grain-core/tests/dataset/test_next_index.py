"""Iterators convert between positions and states."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from grain.experimental import (
    InterleaveIterDataset,
    LimitIterDataset,
    RepeatIterDataset,
    ThreadPrefetchIterDataset,
    WindowShuffleIterDataset,
    get_next_index,
    set_next_index,
)

from ..helpers.pipelines import numbers

COUNTED = {
    "plain": lambda: numbers(9),
    "map": lambda: numbers(9).map(lambda v: v),
    "map_with_index": lambda: numbers(9).map_with_index(lambda i, v: (i, v)),
    "random_map": lambda: numbers(9).random_map(lambda v, rng: rng.random(), seed=1),
    "batch": lambda: numbers(9).batch(2),
    "batch_of_batch": lambda: numbers(9).batch(2).map(lambda v: v).batch(2, batch_fn=list),
    "limit": lambda: LimitIterDataset(numbers(9), 7),
    "thread": lambda: ThreadPrefetchIterDataset(numbers(9), prefetch_buffer_size=2),
    "one_interleaved": lambda: InterleaveIterDataset([numbers(9)], cycle_length=3),
}


@pytest.mark.parametrize("make", COUNTED.values(), ids=COUNTED.keys())
def test_the_next_index_counts_elements_and_can_be_set(
    make: Callable[[], Any], as_plain: Callable[[Any], Any]
) -> None:
    elements = as_plain(list(make()))
    iterator = iter(make())
    for index in range(len(elements)):
        assert get_next_index(iterator) == index
        next(iterator)
    assert get_next_index(iterator) == len(elements)
    for index in (0, 1, len(elements) - 1, len(elements)):
        set_next_index(iterator, index)
        assert get_next_index(iterator) == index
        assert as_plain(list(iterator)) == elements[index:]


@pytest.mark.parametrize(
    "make",
    [
        lambda: numbers(5).filter(lambda v: True),
        lambda: WindowShuffleIterDataset(numbers(5), window_size=2, seed=1),
        lambda: RepeatIterDataset(numbers(5), 2),
        lambda: InterleaveIterDataset([numbers(2), numbers(2)], cycle_length=2),
    ],
)
def test_an_index_that_is_no_matter_of_arithmetic_is_an_error(make: Callable[[], Any]) -> None:
    with pytest.raises(NotImplementedError, match="get_next_index is not supported"):
        get_next_index(iter(make()))
    with pytest.raises(NotImplementedError, match="set_next_index is not supported"):
        set_next_index(iter(make()), 1)


def test_wrong_indices_are_errors() -> None:
    iterator = iter(numbers(5))
    with pytest.raises(IndexError, match="out of range"):
        set_next_index(iterator, 6)
    with pytest.raises(IndexError, match="out of range"):
        set_next_index(iterator, -1)
    with pytest.raises(TypeError, match="integer"):
        set_next_index(iterator, "2")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="DatasetIterator"):
        get_next_index([1])  # type: ignore[arg-type]
