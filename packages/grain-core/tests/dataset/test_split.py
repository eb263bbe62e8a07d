"""The parts of a split share no element."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import grain
from grain.experimental import (
    train_validation_split,
)

from ..helpers.pipelines import numbers


@settings(deadline=None, max_examples=40)
@given(data=st.data(), length=st.integers(2, 60), seed=st.integers(0, 2**32 - 1))
def test_the_parts_share_nothing_in_any_epoch(data: Any, length: int, seed: int) -> None:
    count = data.draw(st.integers(1, length - 1))
    train, validation = train_validation_split(
        grain.MapDataset.range(length), validation=count, seed=seed
    )
    assert (len(train), len(validation)) == (length - count, count)
    for part in (train, validation):
        first = set(part)
        assert len(first) == len(part)
        assert set(part.shuffle(seed).repeat(3)) == first
        assert set(part.shuffle(3)[: len(part) // 2 + 1].repeat(4)) <= first
    assert set(train) | set(validation) == set(range(length))


def test_a_shuffled_dataset_does_not_leak_either() -> None:
    shuffled = grain.MapDataset.range(20).shuffle(7)
    train, validation = shuffled.train_validation_split(validation=0.25, seed=3)
    assert not set(train.repeat(5)) & set(validation.repeat(5))
    mixed = grain.MapDataset.mix([grain.MapDataset.range(9), grain.MapDataset.range(100, 105)])
    train, validation = mixed.train_validation_split(validation=3, seed=3)
    assert not set(train.repeat(5)) & set(validation.repeat(5))


def test_random_functions_below_a_split_draw_again_in_every_epoch() -> None:
    ds = grain.MapDataset.range(8).random_map(lambda x, rng: (x, rng.random()), seed=1)
    train, _ = ds.train_validation_split(validation=2, seed=1)
    first, second = list(train), [train[i] for i in range(6, 12)]
    assert [x for x, _ in first] == [x for x, _ in second]
    assert [draw for _, draw in first] != [draw for _, draw in second]


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: train_validation_split(numbers(5), validation=1, seed=1), TypeError, "MapDataset"),
        (
            lambda: (
                grain.MapDataset.range(5).repeat(2).train_validation_split(validation=1, seed=1)
            ),
            ValueError,
            "repeat",
        ),
        *[
            (
                lambda share=share: grain.MapDataset.range(5).train_validation_split(
                    validation=share, seed=1
                ),
                ValueError,
                "alidation",
            )
            for share in (0, 5, 0.0, 1.5, 0.01)
        ],
        (
            lambda: grain.MapDataset.range(5).train_validation_split(validation=1, seed=-1),
            ValueError,
            "seed",
        ),
    ],
)
def test_splits_that_make_no_sense_are_refused(
    make: Callable[[], Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        make()
