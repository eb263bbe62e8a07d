"""A limit keeps the first elements."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import grain
from grain.experimental import (
    LimitIterDataset,
    WindowShuffleIterDataset,
)

from ..helpers.pipelines import INLINE, numbers


@pytest.mark.parametrize("count", [1, 4, 5, 9])
def test_limit_gives_the_first_elements_and_resumes(
    count: int, parent_of: Callable[..., Any], resumes: Callable[..., Any]
) -> None:
    elements = resumes(lambda: LimitIterDataset(parent_of(range(5)), count))
    assert elements == list(range(min(count, 5)))


def test_limit_reads_no_more_than_it_gives() -> None:
    read: list[int] = []

    def note(x: int) -> int:
        read.append(x)
        return x

    ds = LimitIterDataset(grain.MapDataset.range(50).map(note).to_iter_dataset(INLINE), 3)
    assert list(ds) == [0, 1, 2]
    assert read == [0, 1, 2]


def test_limit_of_a_batch_that_was_read_ahead_is_cut() -> None:
    ds = LimitIterDataset(WindowShuffleIterDataset(numbers(10), window_size=10, seed=1), 4)
    assert len(next(iter(ds.batch(8)))) == 4
    assert len(ds) == 4


@pytest.mark.parametrize(("count", "error"), [(0, ValueError), (-2, ValueError), ("3", TypeError)])
def test_wrong_limit_is_refused_when_built(count: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match=r"[Cc]ount"):
        LimitIterDataset(numbers(3), count)


def test_a_state_with_a_negative_count_is_refused() -> None:
    iterator = iter(LimitIterDataset(numbers(9), 4))
    next(iterator)
    with pytest.raises(ValueError, match="at least 0"):
        iterator.set_state(iterator.get_state() | {"count_elements_read": -3})
    assert list(iterator) == [1, 2, 3]
