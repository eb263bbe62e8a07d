"""Datasets are read interleaved."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import grain
from grain.experimental import (
    InterleaveIterDataset,
)

from ...helpers.pipelines import numbers


@settings(deadline=None, max_examples=60)
@given(lengths=st.lists(st.integers(0, 6), min_size=1, max_size=8), cycle=st.integers(1, 10))
def test_interleave_gives_every_element_once_in_each_datasets_order(
    lengths: list[int], cycle: int
) -> None:
    files = [grain.MapDataset.range(100 * i, 100 * i + length) for i, length in enumerate(lengths)]
    ds = InterleaveIterDataset(files, cycle_length=cycle)
    elements = list(ds)
    for number, file in enumerate(files):
        assert [x for x in elements if x // 100 == number] == list(file)
    assert len(elements) == len(ds) == sum(lengths)


@pytest.mark.parametrize("cycle", [1, 2, 3, 9])
def test_interleave_resumes_at_every_step(
    cycle: int, parent_of: Callable[..., Any], resumes: Callable[..., Any]
) -> None:
    lengths = (3, 0, 1, 4, 2)
    files = [parent_of(range(10 * i, 10 * i + length)) for i, length in enumerate(lengths)]
    elements = resumes(lambda: InterleaveIterDataset(files, cycle_length=cycle))
    assert len(elements) == sum(lengths)


@pytest.mark.usefixtures("nothing_is_slow")
def test_interleave_opens_datasets_when_they_are_needed_and_closes_them() -> None:
    opened: list[int] = []
    closed: list[int] = []

    class File(grain.IterDataset):
        def __init__(self, number: int):
            super().__init__()
            self.number = number

        def __iter__(self) -> grain.DatasetIterator:
            opened.append(self.number)
            return FileIterator(self.number)

    class FileIterator(grain.DatasetIterator):
        def __init__(self, number: int):
            super().__init__()
            self.left = 2
            self.number = number

        def __next__(self) -> int:
            if not self.left:
                raise StopIteration
            self.left -= 1
            return self.number

        def get_state(self) -> int:
            return self.left

        def set_state(self, state: int) -> None:
            self.left = state

        def close(self) -> None:
            closed.append(self.number)
            super().close()

    files = grain.MapDataset.range(6).map(File)
    with iter(InterleaveIterDataset(files, cycle_length=2)) as iterator:
        assert [next(iterator) for _ in range(4)] == [0, 1, 0, 1]
        assert opened == [0, 1]
        assert next(iterator) == 2
        assert closed == [0, 1]
    assert sorted(closed) == [0, 1, 2]


def test_interleave_takes_states_of_datasets_that_come_later() -> None:
    files = [numbers(3), numbers(10, 13)]
    iterator = iter(InterleaveIterDataset(files, cycle_length=1))
    state = iterator.get_state() | {"future_states": {"1": {"next_index": 2}}}
    iterator.set_state(state)
    assert iterator.get_state() == state
    assert list(iterator) == [0, 1, 2, 12]


def test_interleave_pickles() -> None:
    ds = InterleaveIterDataset([numbers(2), numbers(5, 7)], cycle_length=2)
    assert list(pickle.loads(pickle.dumps(ds))) == list(ds) == [0, 5, 1, 6]


@pytest.mark.parametrize(
    ("datasets", "options", "error", "message"),
    [
        ([], {}, ValueError, "at least one dataset"),
        ([[1, 2]], {}, TypeError, "item 0"),
        (3, {}, TypeError, "sequence of datasets"),
        ([grain.MapDataset.range(2)], {"cycle_length": 0}, ValueError, "cycle_length"),
        ([grain.MapDataset.range(2)], {"cycle_length": "2"}, TypeError, "cycle_length"),
        ([grain.MapDataset.range(2)], {"iter_buffer_size": -1}, ValueError, "iter_buffer_size"),
    ],
)
def test_wrong_use_of_interleave_is_refused_when_built(
    datasets: Any, options: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        InterleaveIterDataset(datasets, **({"cycle_length": 1} | options))


def test_a_state_with_one_dataset_twice_in_its_cycle_is_an_error() -> None:
    iterator = iter(InterleaveIterDataset([numbers(2)] * 3, cycle_length=2))
    next(iterator)
    state = iterator.get_state()
    with pytest.raises(ValueError, match="another set of datasets"):
        iterator.set_state(state | {"iterators_in_use_indices": [1, 1]})
    assert len(list(iterator)) == 5


def test_a_state_of_other_datasets_is_an_error() -> None:
    state = iter(InterleaveIterDataset([numbers(2)] * 3, cycle_length=3)).get_state()
    with pytest.raises(ValueError, match="another set of datasets"):
        iter(InterleaveIterDataset([numbers(2)], cycle_length=3)).set_state(state)
