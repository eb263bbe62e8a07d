"""A repeated dataset has equal epochs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from grain.experimental import (
    RepeatIterDataset,
)

from ..helpers.pipelines import numbers


@pytest.mark.parametrize("epochs", [1, 3])
def test_repeat_goes_through_all_epochs_and_resumes(
    epochs: int, parent_of: Callable[..., Any], resumes: Callable[..., Any]
) -> None:
    elements = resumes(lambda: RepeatIterDataset(parent_of(range(4)), epochs))
    assert elements == list(range(4)) * epochs


def test_repeat_without_end_resumes(
    parent_of: Callable[..., Any], resumes: Callable[..., Any]
) -> None:
    assert resumes(lambda: RepeatIterDataset(parent_of(range(3))), limit=8) == [
        0, 1, 2, 0, 1, 2, 0, 1,
    ]  # fmt: skip


@pytest.mark.parametrize("epochs", [None, 3])
def test_repeating_nothing_ends(epochs: int | None) -> None:
    assert list(RepeatIterDataset(numbers(0), epochs)) == []


def test_repeat_has_a_length_where_it_has_one() -> None:
    assert len(RepeatIterDataset(numbers(3), 4)) == 12
    with pytest.raises(TypeError, match="known only by reading"):
        len(RepeatIterDataset(numbers(3)))


def test_every_epoch_of_repeat_is_like_the_first() -> None:
    ds = numbers(5).random_map(lambda x, rng: (x, rng.random()), seed=1)
    elements = list(RepeatIterDataset(ds, 2))
    assert elements[:5] == elements[5:]


@pytest.mark.parametrize(("epochs", "error"), [(0, ValueError), (-1, ValueError), (1.5, TypeError)])
def test_wrong_number_of_epochs_is_refused_when_built(epochs: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match="num_epochs"):
        RepeatIterDataset(numbers(3), epochs)
