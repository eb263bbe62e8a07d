"""Filters that drop too much are reported at the same element with and without workers."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import grain
from grain._policy import use_policy

from ..helpers.pipelines import INLINE, with_workers
from .executors import iterate_inline
from .pipelines import Lines

X = grain.experimental
THREADS = grain.ReadOptions(num_threads=2, prefetch_buffer_size=7)
LENGTH = 60


@pytest.fixture
def small_windows(change_policy: Callable[..., Any]) -> None:
    """Windows of five elements, so that many of them fit into a short dataset."""
    change_policy(drop_rate_window=5)


def strict(dataset: grain.IterDataset, warn: float | None, error: float | None) -> Any:
    options = X.DatasetOptions(filter_warn_threshold_ratio=warn, filter_raise_threshold_ratio=error)
    return X.WithOptionsIterDataset(dataset, options)


def observed(iterator: Any) -> list[Any]:
    """All elements, errors and states to the end, and the warnings."""
    found: list[Any] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        while True:
            try:
                found.append(next(iterator))
            except StopIteration:
                break
            except Exception as error:
                found.append([type(error).__name__, str(error)])
            found.append(json.loads(json.dumps(iterator.get_state())))
            if isinstance(found[-2], list) and found[-4:-2] == found[-2:]:
                break  # A record that cannot be read, however often it is asked for.
    return [found, sorted(str(warning.message) for warning in caught)]


Numbers = frozenset[int]
numbers = st.frozensets(st.integers(0, LENGTH - 1))


class Failing:
    """A function that fails for some numbers."""

    def __init__(self, bad: Numbers):
        self.bad = bad

    def __call__(self, x: int) -> int:
        if x in self.bad:
            raise LookupError(f"{x} is not welcome")
        return x


def pipeline(
    options: grain.ReadOptions, dropped: list[Numbers], bad: list[Numbers]
) -> grain.IterDataset:
    """Filters on the map dataset and above it, with functions between them that may fail."""

    def keep(place: int) -> Callable[[int], bool]:
        return lambda x: x not in dropped[place]

    ds = grain.MapDataset.range(LENGTH).map(Failing(bad[0])).filter(keep(0))
    above = ds.to_iter_dataset(options).map(Failing(bad[1])).filter(keep(1))
    return above.map(Failing(bad[2])).filter(keep(2)).map(Failing(bad[3]))


ratios = st.sampled_from([None, 0.0, 0.3, 0.5, 0.79])
few = st.frozensets(st.integers(0, LENGTH - 1), max_size=1)


@pytest.mark.usefixtures("small_windows")
@settings(deadline=None)
@given(
    dropped=st.lists(numbers, min_size=3, max_size=3),
    bad=st.lists(few, min_size=4, max_size=4),
    warn=ratios,
    error=ratios,
    size=st.sampled_from([1, 3, 8, 100]),
)
def test_blocks_are_judged_as_single_elements_are(
    dropped: list[Numbers],
    bad: list[Numbers],
    warn: float | None,
    error: float | None,
    size: int,
) -> None:
    bad[0] = frozenset()  # A record that cannot be read ends it all; see the next test.
    dataset = strict(pipeline(INLINE, dropped, bad), warn, error)
    expected = observed(iter(dataset))
    # Blocks become as large as their bytes allow.
    with use_policy(block_seconds=1e3, block_bytes=32 * size):
        assert observed(iterate_inline(dataset)) == expected


@pytest.mark.usefixtures("small_windows")
@settings(deadline=None, max_examples=20)
@given(dropped=numbers, bad=st.integers(0, LENGTH - 1), error=ratios)
def test_a_record_that_cannot_be_read_comes_after_what_was_dropped_before_it(
    dropped: Numbers, bad: int, error: float | None
) -> None:
    failing = [frozenset({bad}), *[frozenset[int]()] * 3]
    dataset = strict(pipeline(INLINE, [dropped, frozenset(), dropped], failing), None, error)
    expected = observed(iter(dataset))
    assert observed(iterate_inline(dataset, buffer_size=20)) == expected


@pytest.mark.usefixtures("small_windows")
@settings(deadline=None, max_examples=20)
@given(dropped=st.lists(numbers, min_size=3, max_size=3), error=ratios, early=st.booleans())
def test_what_threads_read_is_judged_as_what_is_read_without_them(
    dropped: list[Numbers], error: float | None, early: bool
) -> None:
    nowhere = [frozenset[int]()] * 4
    here = strict(pipeline(INLINE, dropped, nowhere), 0.5, error)
    in_threads = strict(pipeline(THREADS, dropped, nowhere), 0.5, error)
    with iter(in_threads) as iterator:
        if early:
            iterator.start_prefetch()
        found = observed(iterator)
    [elements, messages] = observed(iter(here))
    renamed = json.dumps([elements, messages]).replace(str(INLINE), str(THREADS))
    assert json.loads(json.dumps(found)) == json.loads(renamed)


def scarce(x: int) -> bool:
    return x % 40 == 0 or 2500 < x < 3100


CASES: dict[str, Callable[[], grain.IterDataset]] = {
    "map filter": lambda: (
        grain.MapDataset.range(5000).filter(scarce).to_iter_dataset().batch(7).map(len)
    ),
    "filters": lambda: (
        grain.MapDataset.range(9000)
        .to_iter_dataset()
        .filter(lambda x: x % 2 == 0)
        .map(lambda x: x // 2)
        .filter(scarce)
        .map(lambda x: x + 1)
    ),
    "stream": lambda: Lines(0, 3000).filter(scarce),
}


@pytest.mark.parametrize("name", CASES)
def test_worker_processes_report_it_at_the_same_element(name: str) -> None:
    dataset = CASES[name]()
    expected = observed(iter(strict(dataset, None, 0.9)))
    assert any("filter_raise" in str(step) for step in expected[0])
    # The options may also be given above the workers.
    with iter(strict(with_workers(dataset, 2), None, 0.9)) as iterator:
        assert observed(iterator) == expected
