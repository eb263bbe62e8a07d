"""Filters: what becomes of dropped elements, and what is said when too many are dropped."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import grain
from grain._policy import use_policy

from ..helpers.pipelines import INLINE

Map = grain.MapDataset
DatasetOptions = grain.experimental.DatasetOptions


def on_map(count: int, keep: Callable[[int], bool]) -> grain.IterDataset:
    return Map.range(count).filter(keep).to_iter_dataset(INLINE)


def on_iter(count: int, keep: Callable[[int], bool]) -> grain.IterDataset:
    return Map.range(count).to_iter_dataset(INLINE).filter(keep)


each_form = pytest.mark.parametrize("make", [on_map, on_iter])


def with_options(ds: grain.IterDataset, **options: Any) -> grain.IterDataset:
    return grain.experimental.WithOptionsIterDataset(ds, DatasetOptions(**options))


def warnings_of(ds: grain.IterDataset, seconds: float = 0) -> list[str]:
    caught: list[logging.LogRecord] = []
    handler = logging.Handler()
    handler.emit = caught.append  # type: ignore[method-assign]
    logger = logging.getLogger("grain")
    logger.addHandler(handler)
    try:
        with use_policy(drop_warning_seconds=seconds):
            list(ds)
    finally:
        logger.removeHandler(handler)
    assert all(record.levelno == logging.WARNING for record in caught)
    return [record.getMessage() for record in caught]


def read_until_error(ds: grain.IterDataset) -> tuple[list[Any], Exception | None, Any]:
    iterator = iter(ds)
    elements = []
    try:
        for element in iterator:
            elements.append(element)
    except ValueError as error:
        return elements, error, iterator.get_state()
    return elements, None, iterator.get_state()


# --- thresholds ----------------------------------------------------------------------------------


@each_form
def test_a_filter_that_drops_more_than_nine_in_ten_warns_with_each_thousand(make):
    messages = warnings_of(make(3500, lambda x: x % 20 == 0))
    assert len(messages) == 3
    assert "skipped 95.00 % of the last seen 1000 elements" in messages[0]
    assert "filter_warn_threshold_ratio` used in `WithOptionsIterDataset` to `None`" in messages[0]


def test_a_filter_is_warned_about_once_in_a_while():
    # Named after the moment: an earlier run of this test may have warned a moment ago.
    name = f"Keep{time.monotonic_ns()}"
    keep = type(name, (grain.transforms.Filter,), {"filter": lambda self, x: x % 20 == 0})()
    ds = Map.range(3500).to_iter_dataset(INLINE).filter(keep)
    [message] = warnings_of(ds, 3600)
    assert name in message
    assert warnings_of(ds, 3600) == []
    assert len(warnings_of(ds, 0)) == 3


@each_form
def test_the_warning_names_the_iterator_that_drops(make):
    [message, *_] = warnings_of(make(1000, lambda x: False))
    expected = {on_map: "PrefetchDatasetIterator(", on_iter: "FilterDatasetIterator(transform="}
    assert f"Transformation {expected[make]}" in message


@each_form
@pytest.mark.parametrize(
    ("count", "keep"),
    [
        (999, lambda x: False),  # Too few to judge.
        (5000, lambda x: x % 1000 >= 899),  # Fewer than nine in ten.
        (5000, lambda x: True),
    ],
)
def test_nothing_is_said_below_the_threshold(make, count, keep):
    assert warnings_of(make(count, keep)) == []


@each_form
@pytest.mark.parametrize("ratio", [0.1, 0.3, 0.5, 0.7, 0.9])
def test_a_threshold_is_reached_by_just_what_it_says(make, ratio):
    exactly = round(1000 * ratio)
    ds = make(1000, lambda x: x >= exactly)
    assert len(warnings_of(with_options(ds, filter_warn_threshold_ratio=ratio))) == 1
    one_less = make(1000, lambda x: x >= exactly - 1)
    assert warnings_of(with_options(one_less, filter_warn_threshold_ratio=ratio)) == []


@each_form
def test_a_threshold_of_one_is_reached_when_nothing_passes_and_one_of_zero_never(make):
    nothing = with_options(make(2000, lambda x: False), filter_warn_threshold_ratio=0.0)
    assert warnings_of(nothing) == []
    with pytest.raises(ValueError, match=r"skipped 100\.00 %"):
        list(with_options(nothing, filter_raise_threshold_ratio=1.0))
    assert list(with_options(nothing, filter_raise_threshold_ratio=0.0)) == []


@each_form
def test_no_threshold_never_warns(make):
    ds = with_options(make(3000, lambda x: False), filter_warn_threshold_ratio=None)
    assert warnings_of(ds) == []


@each_form
def test_another_threshold_for_warnings(make):
    ds = make(1000, lambda x: x % 2 == 0)
    assert warnings_of(ds) == []
    assert len(warnings_of(with_options(ds, filter_warn_threshold_ratio=0.4))) == 1


@each_form
def test_above_the_threshold_for_errors_the_window_is_given_first(make):
    ds = with_options(make(5000, lambda x: x % 4 == 0), filter_raise_threshold_ratio=0.5)
    elements, error, state = read_until_error(ds)
    assert elements == list(range(0, 1000, 4))
    assert "skipped 75.00 % of the last seen 1000 elements" in str(error)
    assert "filter_raise_threshold_ratio" in str(error)
    assert state == {"next_index": 1000}


@each_form
def test_only_whole_windows_of_a_thousand_are_judged(make):
    ds = make(5000, lambda x: x < 1500 or x >= 3000)
    elements, error, state = read_until_error(with_options(ds, filter_raise_threshold_ratio=0.8))
    assert elements == list(range(1500))
    assert "skipped 100.00 % of the last seen 1000 elements" in str(error)
    assert state == {"next_index": 3000}


@each_form
def test_the_stream_resumes_after_the_error(make):
    ds = make(2500, lambda x: x >= 1000)
    iterator = iter(with_options(ds, filter_raise_threshold_ratio=0.5))
    with pytest.raises(ValueError, match=r"100\.00 %"):
        next(iterator)
    assert list(iterator) == list(range(1000, 2500))


@each_form
@given(limits=st.lists(st.integers(1, 1500), min_size=1, max_size=4), data=st.data())
@settings(deadline=None, max_examples=20)
def test_where_a_threshold_is_passed_does_not_depend_on_how_many_are_read_at_a_time(
    make, limits, data
):
    bounds = data.draw(st.lists(st.integers(0, 4000), min_size=2, max_size=6).map(sorted))
    ds = make(4000, lambda x: sum(x >= bound for bound in bounds) % 2 == 0)
    ds = with_options(ds, filter_raise_threshold_ratio=0.6, filter_warn_threshold_ratio=None)
    expected, expected_error, expected_state = read_until_error(ds)
    iterator = iter(ds)
    elements: list[Any] = []
    error = None
    for number in range(10**4):
        try:
            run = iterator.next_chunk(limits[number % len(limits)])
        except ValueError as raised:
            error = raised
            break
        if not run.elements:
            break
        elements += run.elements
    assert elements == expected
    assert str(error) == str(expected_error)
    assert iterator.get_state() == expected_state


def test_the_threshold_counts_in_threads_as_well():
    options = grain.ReadOptions(num_threads=2, prefetch_buffer_size=100)
    ds = Map.range(5000).filter(lambda x: x % 4 == 0).to_iter_dataset(options)
    iterator = iter(with_options(ds, filter_raise_threshold_ratio=0.5))
    iterator.start_prefetch()
    elements = []
    with pytest.raises(ValueError, match=r"75\.00 % of the last seen 1000"):
        elements.extend(iterator)
    assert elements == list(range(0, 1000, 4))
    iterator.close()


def test_options_given_closer_to_the_end_win():
    ds = with_options(on_iter(1000, lambda x: False), filter_warn_threshold_ratio=None)
    assert warnings_of(ds) == []
    assert len(warnings_of(with_options(ds, filter_warn_threshold_ratio=0.5))) == 1
    # Options that are not given change nothing.
    assert warnings_of(with_options(ds, filter_raise_threshold_ratio=1.5)) == []


@pytest.mark.parametrize("name", ["filter_warn_threshold_ratio", "filter_raise_threshold_ratio"])
def test_a_threshold_is_a_number_from_zero_on(name):
    for wrong in (-0.1, float("nan")):
        with pytest.raises(ValueError, match=f"{name} must be None or a number >= 0, got {wrong}"):
            DatasetOptions(**{name: wrong})
    with pytest.raises(TypeError, match=f"{name} must be None or a number >= 0, got 'a'"):
        DatasetOptions(**{name: "a"})


def test_an_iterator_watches_from_where_it_was_set(caplog):
    with use_policy(drop_warning_seconds=0):
        iterator = iter(on_iter(2999, lambda x: x < 2000))
        iterator.set_state({"next_index": 1999})
        assert list(iterator) == [1999]
    assert "skipped 99.90 % of the last seen 1000" in caplog.text


# --- None ----------------------------------------------------------------------------------------


def test_dropped_elements_are_none_on_a_map_dataset_and_gone_when_iterated():
    ds = Map.range(6).filter(lambda x: x % 2 == 0)
    assert [ds[i] for i in range(6)] == [0, None, 2, None, 4, None]
    assert list(ds) == [0, 2, 4]
    assert len(ds) == 6


def test_nones_are_given_on_request_and_pass_through_operations():
    ds = Map.range(4).filter(lambda x: x % 2 == 0).to_iter_dataset(INLINE, allow_nones=True)
    assert list(ds) == [0, None, 2, None]
    assert list(ds.map(lambda x: x + 1)) == [1, None, 3, None]
    assert list(ds.map_with_index(lambda i, x: (i, x))) == [(0, 0), None, (2, 2), None]
    assert [x is None for x in ds.random_map(lambda x, rng: rng, seed=1)] == [False, True] * 2
    assert list(ds.filter(lambda x: x is None or x > 0)) == [None, 2, None]
    assert list(ds.filter(lambda x: x is not None)) == [0, 2]
    assert list(ds.batch(2, batch_fn=list)) == [[0, None], [2, None]]


def test_functions_never_see_none():
    seen = []
    ds = Map.range(6).filter(lambda x: x % 2 == 0)
    ds = ds.map(lambda x: seen.append(x) or x).filter(lambda x: seen.append(x) or x > 0)
    assert list(ds) == [2, 4]
    assert sorted(seen) == [0, 0, 2, 2, 4, 4]


def test_a_random_map_draws_the_same_for_an_element_whatever_was_dropped_before_it():
    draws = Map.range(8).random_map(lambda x, rng: (x, rng.random()), seed=3)
    some = (
        Map.range(8)
        .filter(lambda x: x % 3 == 0)
        .random_map(lambda x, rng: (x, rng.random()), seed=3)
    )
    assert list(some) == [draws[0], draws[3], draws[6]]


def test_arrays_are_never_compared_with_none():
    ds = Map.source([np.zeros(2), None, np.ones(2)]).map(lambda x: x + 1)
    assert [x.tolist() for x in ds] == [[1, 1], [2, 2]]
