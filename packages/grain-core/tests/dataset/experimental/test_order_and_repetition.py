"""Window shuffle, limit, repeat, cache: the order of elements, and how often they come."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import grain
from grain.experimental import (
    CacheIterDataset,
    LimitIterDataset,
    RepeatIterDataset,
    WindowShuffleIterDataset,
    WindowShuffleMapDataset,
)

from ...helpers.pipelines import INLINE, numbers


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


def test_window_shuffle_knows_its_length() -> None:
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


def test_repeat_knows_its_length_where_it_has_one() -> None:
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
