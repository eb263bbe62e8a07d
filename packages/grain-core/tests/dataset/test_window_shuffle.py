"""Windows of elements are shuffled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import grain
from grain.experimental import (
    WindowShuffleIterDataset,
    WindowShuffleMapDataset,
)

from ..helpers.pipelines import numbers


@settings(deadline=None, max_examples=40)
@given(
    length=st.integers(1, 60),
    window=st.integers(1, 70),
    seed=st.integers(0, 2**32 - 1),
    epochs=st.integers(1, 3),
)
def test_a_map_window_keeps_its_elements_in_every_epoch(
    length: int, window: int, seed: int, epochs: int
) -> None:
    ds = grain.MapDataset.range(length).window_shuffle(window, seed=seed)
    for epoch in range(epochs):
        elements = [ds[epoch * length + i] for i in range(length)]
        for start in range(0, length, window):
            expected = list(range(length))[start : start + window]
            assert sorted(elements[start : start + window]) == expected
        assert elements == ds.__getitems__(range(epoch * length, (epoch + 1) * length))


@settings(deadline=None, max_examples=40)
@given(length=st.integers(1, 40), window=st.integers(1, 50), seed=st.integers(0, 2**32 - 1))
def test_windows_that_span_epochs_give_every_element_equally_often(
    length: int, window: int, seed: int
) -> None:
    ds = WindowShuffleMapDataset(grain.MapDataset.range(length), window_size=window, seed=seed)
    elements = [ds[i] for i in range(length * window)]
    assert sorted(elements) == sorted([*range(length)] * window)
    for start in range(0, length * window, window):
        expected = sorted(i % length for i in range(start, start + window))
        assert sorted(elements[start : start + window]) == expected


@settings(deadline=None, max_examples=40)
@given(length=st.integers(0, 60), window=st.integers(1, 70), seed=st.integers(0, 2**32 - 1))
def test_an_iter_window_keeps_its_elements(length: int, window: int, seed: int) -> None:
    elements = list(WindowShuffleIterDataset(numbers(length), window_size=window, seed=seed))
    for start in range(0, length, window):
        expected = list(range(length))[start : start + window]
        assert sorted(elements[start : start + window]) == expected
    assert len(elements) == length


def test_windows_are_shuffled_differently() -> None:
    elements = list(WindowShuffleIterDataset(numbers(40), window_size=20, seed=1))
    assert [x + 20 for x in elements[:20]] != elements[20:]


@pytest.mark.parametrize("window", [1, 4, 5, 100])
def test_window_shuffle_resumes_at_every_step(
    window: int, parent_of: Callable[..., Any], resumes: Callable[..., Any]
) -> None:
    resumes(lambda: WindowShuffleIterDataset(parent_of(range(10)), window_size=window, seed=3))


def test_window_shuffle_has_a_length() -> None:
    assert len(WindowShuffleIterDataset(numbers(7), window_size=3, seed=1)) == 7


@pytest.mark.parametrize("kind", [WindowShuffleMapDataset, WindowShuffleIterDataset])
@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        ({"window_size": 0}, ValueError),
        ({"window_size": "4"}, TypeError),
        ({"seed": -1}, ValueError),
        ({"seed": 2**32}, ValueError),
        ({"seed": None}, TypeError),
    ],
)
def test_wrong_options_of_window_shuffle_are_refused_when_built(
    kind: Any, wrong: dict[str, Any], error: type[Exception]
) -> None:
    parent: Any = grain.MapDataset.range(3)
    if kind is WindowShuffleIterDataset:
        parent = parent.to_iter_dataset()
    with pytest.raises(error, match=next(iter(wrong)).capitalize()[:4] + "|" + next(iter(wrong))):
        kind(parent, **({"window_size": 2, "seed": 1} | wrong))
