"""Datasets are read interleaved."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import grain
from grain.dataset.interleave import opener
from grain.experimental import InterleaveIterDataset

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


def _stream(number: int) -> Any:
    """Return a dataset whose state only its iterator can judge, over a parent that starts at 100 * number."""
    return grain.experimental.RebatchIterDataset(
        numbers(100 * number, 100 * number + 12).batch(3), 2
    )


_WRONG_POSITIONS: list[Any] = [{"foo": 1}, "x", 5, [], {}, *(
    {"next_index": index} for index in (-1, 10**9, 2**63, 10**30, "x", None, 1.5, True, [])
)]  # fmt: skip


@pytest.mark.parametrize("on_demand", [False, True], ids=["listed", "on demand"])
@pytest.mark.parametrize("kind", ["map", "iter", "batch", "filter", "rebatch"])
@pytest.mark.parametrize("wrong", _WRONG_POSITIONS, ids=repr)
def test_a_wrong_state_of_a_dataset_in_the_cycle_is_refused(
    wrong: Any, kind: str, on_demand: bool
) -> None:
    def dataset(number: int) -> Any:
        plain = grain.MapDataset.range(100 * number, 100 * number + 12)
        stream = plain.to_iter_dataset()
        match kind:
            case "map":
                return plain
            case "iter":
                return stream
            case "batch":
                return stream.map(lambda x: x).batch(2)
            case "filter":
                return stream.filter(lambda x: x % 3 > 0)
        return _stream(number)

    files = grain.MapDataset.range(4).map(dataset) if on_demand else [dataset(n) for n in range(4)]
    ds = InterleaveIterDataset(files, cycle_length=2)
    expected = [str(x) for x in ds]
    iterator = iter(ds)
    taken = [str(next(iterator)) for _ in range(5)]
    state = iterator.get_state()
    for slot in (0, 1):
        states = list(state["iterators_in_use_states"])
        states[slot] = {"parent": wrong, "batch_idx": 0} if kind == "rebatch" else wrong
        with pytest.raises((KeyError, IndexError, TypeError, ValueError)) as refused:
            iterator.set_state(state | {"iterators_in_use_states": states})
        assert f"dataset {slot} of {iterator}" in refused.value.__notes__[0]
        assert iterator.get_state() == state
    assert taken + [str(x) for x in iterator] == expected


@pytest.mark.parametrize(
    "change",
    [
        {"future_states": 10**30},
        {"future_states": [1]},
        {"future_states": {"9": {"next_index": 0}}},
        {"future_states": {"x": {"next_index": 0}}},
        {"future_states": {"3": {"next_index": 99}}},
        {"future_states": {"3": "x"}},
        {"exhausted": [0]},
        {"exhausted": [0, "x"]},
        {"exhausted": [0, 2]},
        {"exhausted": 0},
        {"iterators_in_use_states": [{"next_index": 0}]},
        {"iterators_in_use_states": {"0": {"next_index": 0}}},
        {"iterators_in_use_indices": [0, 0.5]},
        {"iterators_in_use_indices": [0, True]},
        {"iterators_in_use_indices": "01"},
        {"next_index_in_cycle": 2},
        {"next_index_in_cycle": 0.5},
        {"next_index_in_cycle": "0"},
        {"next_index_in_datasets": 10**30},
        {"next_index_in_datasets": None},
        {"next_index_in_datasets": 2.0},
    ],
    ids=str,
)
def test_each_field_of_a_state_is_checked_before_anything_changes(change: dict[str, Any]) -> None:
    ds = InterleaveIterDataset([numbers(10 * n, 10 * n + 5) for n in range(4)], cycle_length=2)
    iterator = iter(ds)
    taken = [next(iterator) for _ in range(3)]
    state = iterator.get_state()
    with pytest.raises((TypeError, ValueError, IndexError), match=r"state|next_index"):
        iterator.set_state(state | change)
    assert iterator.get_state() == state
    assert taken + list(iterator) == list(ds)


class _Counted(grain.IterDataset):
    """A stream that notes when it is opened and closed."""

    def __init__(self, number: int, events: list[Any]):
        super().__init__()
        self.number, self.events = number, events

    def __iter__(self) -> grain.DatasetIterator:
        self.events.append(("open", self.number))
        return _CountedIterator(self)


class _CountedIterator(grain.DatasetIterator):
    def __init__(self, stream: _Counted):
        super().__init__()
        self.stream, self.place = stream, 0

    def __next__(self) -> int:
        if self.place == 3:
            raise StopIteration
        self.place += 1
        return 10 * self.stream.number + self.place

    def get_state(self) -> dict[str, int]:
        return {"place": self.place}

    def set_state(self, state: dict[str, int]) -> None:
        if not 0 <= state["place"] <= 3:
            raise ValueError(f"there is no place {state['place']}")
        self.place = state["place"]

    def close(self) -> None:
        self.stream.events.append(("close", self.stream.number))
        super().close()


@pytest.mark.usefixtures("nothing_is_slow")
def test_datasets_that_judge_their_states_are_opened_once_and_closed_if_the_state_is_refused() -> (
    None
):
    events: list[Any] = []
    ds = InterleaveIterDataset([_Counted(n, events) for n in range(4)], cycle_length=2)
    with iter(ds) as iterator:
        taken = [next(iterator) for _ in range(3)]
        state = iterator.get_state()
    rest = [2, 3, 12, 13, 21, 31, 22, 32, 23, 33]
    assert taken == [1, 11, 2]

    events.clear()
    fresh = iter(ds)
    fresh.set_state(state)
    assert events == [("open", 0), ("open", 1)]
    assert sorted(fresh) == sorted(rest[1:])
    assert sorted(events) == sorted((what, n) for n in range(4) for what in ("open", "close"))

    events.clear()
    fresh = iter(ds)
    with pytest.raises(ValueError, match="no place 7"):
        fresh.set_state(state | {"iterators_in_use_states": [{"place": 1}, {"place": 7}]})
    assert sorted(events) == [("close", 0), ("close", 1), ("open", 0), ("open", 1)]
    assert len(list(fresh)) == 12

    events.clear()
    fresh.close()
    fresh.set_state(state)
    assert sorted(events) == [("close", 0), ("close", 1), ("open", 0), ("open", 1)]


def test_datasets_whose_states_are_surely_valid_are_opened_when_they_are_due(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    streams = [numbers(10 * n, 10 * n + 5).map(lambda x: x + 1).batch(2) for n in range(4)]
    ds = InterleaveIterDataset(streams, cycle_length=2)
    first = iter(ds)
    next(first)
    state = first.get_state()
    opened: list[Any] = []
    open_dataset = opener._make

    def make(datasets: Any, number: int, *args: Any) -> Any:
        opened.append(number)
        return open_dataset(datasets, number, *args)

    monkeypatch.setattr(opener, "_make", make)
    fresh = iter(ds)
    fresh.set_state(state)
    assert opened == []
    assert [x.tolist() for x in fresh] == [x.tolist() for x in first]


def test_a_wrong_state_of_a_dataset_that_workers_compute_is_refused() -> None:
    ds = InterleaveIterDataset([_stream(n) for n in range(3)], cycle_length=2)
    plain = [x.tolist() for x in ds]
    options = grain.MultiprocessingOptions(num_workers=1, executor="threads")
    with iter(ds.mp_prefetch(options)) as iterator:
        taken = [next(iterator).tolist() for _ in range(3)]
        state = iterator.get_state()
        states = [
            state["iterators_in_use_states"][0],
            {"parent": {"next_index": 99}, "batch_idx": 0},
        ]
        with pytest.raises(IndexError, match="99 is out of range"):
            iterator.set_state(state | {"iterators_in_use_states": states})
        assert iterator.get_state() == state
        assert taken + [x.tolist() for x in iterator] == plain
