"""Batches get another size."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import grain
from grain.experimental import (
    RebatchIterDataset,
)

from ..helpers.pipelines import INLINE, numbers


@settings(deadline=None, max_examples=60)
@given(sizes=st.lists(st.integers(0, 9), max_size=12), size=st.integers(1, 12), drop=st.booleans())
def test_rebatch_keeps_rows_and_their_order(sizes: list[int], size: int, drop: bool) -> None:
    ends = np.cumsum([0, *sizes]).tolist()
    batches = [
        {"a": np.arange(start, end), "b": [np.arange(start, end).reshape(-1, 1) * 2.0]}
        for start, end in itertools.pairwise(ends)
    ]
    source = grain.MapDataset.source(batches).to_iter_dataset(INLINE)
    made = list(RebatchIterDataset(source, size, drop_remainder=drop))
    rows = [row for batch in made for row in batch["a"].tolist()]
    assert rows == list(range(sum(sizes) // size * size if drop else sum(sizes)))
    assert all(len(batch["a"]) == size for batch in made[:-1])
    for batch in made:
        assert (batch["b"][0][:, 0] == batch["a"] * 2.0).all()


@pytest.mark.parametrize("size", [1, 3, 4, 7, 50])
@pytest.mark.parametrize("drop", [False, True])
def test_rebatch_resumes_at_every_step(
    size: int, drop: bool, parent_of: Callable[..., Any], resumes: Callable[..., Any]
) -> None:
    batches = [np.arange(0, 5), np.arange(5, 9), np.arange(9, 9), np.arange(9, 16)]
    resumes(lambda: RebatchIterDataset(parent_of(batches), size, drop_remainder=drop))


@pytest.mark.parametrize(
    ("batches", "error", "message"),
    [
        ([1], TypeError, "int"),
        ([{"a": None}], TypeError, "without arrays"),
        ([{"a": np.arange(2), "b": np.arange(3)}], ValueError, r"\[2, 3\]"),
        ([{"a": np.arange(2)}, {"b": np.arange(2)}], ValueError, "different structure"),
        ([np.ones((2, 2)), np.ones((2, 3))], ValueError, r"\(2, 3\)"),
    ],
)
def test_batches_that_do_not_fit_together_are_an_error(
    batches: list[Any], error: type[Exception], message: str
) -> None:
    source = grain.MapDataset.source(batches).to_iter_dataset(INLINE)
    with pytest.raises(error, match=message):
        list(RebatchIterDataset(source, 3))


@pytest.mark.parametrize(("size", "error"), [(0, ValueError), ("4", TypeError)])
def test_wrong_batch_size_is_refused_when_built(size: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match="batch_size"):
        RebatchIterDataset(numbers(3), size)
