"""Slow datasets are opened and read ahead in threads, as far as requested; the stream stays."""

from __future__ import annotations

import contextlib
import json
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import grain
from grain.dataset.interleave import opener
from grain.dataset.interleave.cycle import LatencyMonitor
from grain.experimental import InterleaveIterDataset

from ...conftest import PARENTS
from ...helpers.threads import new_threads, wait_for_end

SECONDS = 60.0  # Nothing here takes this long, unless it is broken.


class Library:
    """Files as users write them; it notes what is opened, read and closed, and lets a test meddle."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.opened: list[int] = []
        self.read: dict[int, int] = {}
        self.closed: list[int] = []
        self.on_open: Callable[[int], Any] = lambda number: None
        self.on_read: Callable[[int, int], Any] = lambda number, place: None

    def note(self, change: Callable[[], Any]) -> None:
        with self.changed:
            change()
            self.changed.notify_all()

    def wait_for(self, condition: Callable[[], bool]) -> None:
        with self.changed:
            assert self.changed.wait_for(condition, SECONDS)

    def file(self, number: int, length: int = 4) -> grain.IterDataset:
        return _File(self, number, length)


class _File(grain.IterDataset):
    def __init__(self, library: Library, number: int, length: int):
        super().__init__()
        self.library, self.number, self.length = library, number, length

    def __iter__(self) -> grain.DatasetIterator:
        self.library.on_open(self.number)
        self.library.note(lambda: self.library.opened.append(self.number))
        return _FileIterator(self)


class _FileIterator(grain.DatasetIterator):
    def __init__(self, file: _File):
        super().__init__()
        self.file = file
        self.place = 0

    def __next__(self) -> tuple[int, int]:
        file, place = self.file, self.place
        if place == file.length:
            raise StopIteration
        self.place += 1
        file.library.on_read(file.number, place)
        read = file.library.read
        file.library.note(lambda: read.update({file.number: read.get(file.number, 0) + 1}))
        return file.number, place

    def get_state(self) -> int:
        return self.place

    def set_state(self, state: int) -> None:
        self.place = state

    def close(self) -> None:
        self.file.library.note(lambda: self.file.library.closed.append(self.file.number))
        super().close()


@pytest.fixture
def library() -> Library:
    return Library()


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything counts as slow, whatever the clock says."""
    monkeypatch.setattr(LatencyMonitor, "slow", property(lambda self: True))
    monkeypatch.setattr(LatencyMonitor, "quick", property(lambda self: False))
    monkeypatch.setattr(LatencyMonitor, "rules_out", lambda self, seconds: False)


@contextlib.contextmanager
def all_threads_end() -> Iterator[None]:
    before = set(threading.enumerate())
    yield
    wait_for_end(lambda: new_threads(before))


@pytest.mark.usefixtures("slow")
@pytest.mark.parametrize("cycle", [1, 2, 3, 9])
@pytest.mark.parametrize("sizes", [(1, 1, 1), (3, 2, 4), (0, 0, 0), (0, 1, 2), (1, 0, 0)])
def test_threads_change_neither_stream_nor_states(
    cycle: int, sizes: tuple[int, int, int], resumes: Callable[..., Any]
) -> None:
    lengths = (3, 0, 1, 4)
    shelf = Library()
    files = [shelf.file(number, length) for number, length in enumerate(lengths)]
    files.append(grain.MapDataset.range(3).to_iter_dataset())
    threads, ahead, buffer = sizes
    ds = InterleaveIterDataset(
        files,
        cycle_length=cycle,
        num_make_iter_threads=threads,
        make_iter_buffer_size=ahead,
        iter_buffer_size=buffer,
    )
    with all_threads_end():
        assert resumes(lambda: ds) == expected_turns(files, cycle)


def expected_turns(files: list[Any], cycle: int) -> list[Any]:
    """Return the expected elements, computed in the plainest way."""
    waiting = [[list(x) if isinstance(x, tuple) else x for x in file] for file in files]
    places: list[Any] = [waiting.pop(0) for _ in range(min(cycle, len(waiting)))]
    found = []
    while waiting or any(place is not None for place in places):
        for number, place in enumerate(places):
            if place is None and waiting:
                place = places[number] = waiting.pop(0)
            if place:
                found.append(place.pop(0))
            elif place is not None:
                places[number] = None
    return found


@pytest.mark.parametrize("judgement", ["as it is", "slow"])
@settings(
    deadline=None, max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data(), cycle=st.integers(1, 6))
def test_datasets_of_all_kinds_are_interleaved(
    judgement: str, data: Any, cycle: int, request: pytest.FixtureRequest
) -> None:
    if judgement == "slow":
        request.getfixturevalue("slow")
    kinds = data.draw(
        st.lists(st.tuples(st.sampled_from(sorted(PARENTS)), st.integers(0, 5)), min_size=1)
    )
    files = [
        PARENTS[kind](range(100 * number, 100 * number + length))
        for number, (kind, length) in enumerate(kinds[:7])
    ]
    ds = InterleaveIterDataset(files, cycle_length=cycle)
    expected = expected_turns(files, cycle)
    with iter(ds) as iterator, iter(ds) as other:
        for step in range(len(expected) + 1):
            state = json.loads(json.dumps(iterator.get_state()))
            # Another iterator resumes from here by whole batches, which read several at a time.
            other.set_state(state)
            size = data.draw(st.integers(1, 9))
            taken = [next(other, None) for _ in range(size)]
            assert taken == (expected[step:] + [None] * size)[:size]
            if step < len(expected):
                assert next(iterator) == expected[step]
        assert next(iterator, None) is None
    size = data.draw(st.integers(1, 9))
    batches = iter(ds.batch(size, batch_fn=list))
    found = next(batches, [])
    again = iter(ds.batch(size, batch_fn=list))
    again.set_state(json.loads(json.dumps(batches.get_state())))
    assert found + [x for batch in again for x in batch] == expected


@pytest.mark.usefixtures("slow")
def test_as_many_datasets_are_opened_at_a_time_as_requested(library: Library) -> None:
    together = threading.Barrier(3)

    def on_open(number: int) -> None:
        if number:
            together.wait(SECONDS)

    library.on_open = on_open
    ds = InterleaveIterDataset(
        [library.file(number) for number in range(4)], cycle_length=4, num_make_iter_threads=3
    )
    with all_threads_end(), iter(ds) as iterator:
        assert [next(iterator) for _ in range(4)] == [(number, 0) for number in range(4)]


@pytest.mark.usefixtures("slow")
@pytest.mark.parametrize("ahead", [0, 1, 3])
def test_as_many_datasets_are_opened_ahead_as_requested(ahead: int, library: Library) -> None:
    ds = InterleaveIterDataset(
        [library.file(number, 1) for number in range(8)],
        cycle_length=1,
        make_iter_buffer_size=ahead,
    )
    with all_threads_end(), iter(ds) as iterator:
        for number in range(8):
            assert next(iterator) == (number, 0)
            if number:  # The first one tells that the others are slow.
                expected = list(range(min(8, number + 1 + ahead)))
                library.wait_for(lambda expected=expected: sorted(library.opened) == expected)
    assert sorted(library.closed) == list(range(8))


@pytest.mark.usefixtures("slow")
@pytest.mark.parametrize("buffer", [0, 1, 3])
def test_as_many_elements_are_read_ahead_in_each_dataset_as_requested(
    buffer: int, library: Library
) -> None:
    ds = InterleaveIterDataset(
        [library.file(number, 20) for number in range(2)], cycle_length=2, iter_buffer_size=buffer
    )
    with all_threads_end(), iter(ds) as iterator:
        for place in range(8):
            assert [next(iterator), next(iterator)] == [(0, place), (1, place)]
            if place > 1:
                # Something of the next round may be on its way already.
                least = place + 1 + buffer
                library.wait_for(lambda least=least: min(library.read.values()) >= least)
                assert max(library.read.values()) <= least + 1


@pytest.mark.usefixtures("slow")
def test_the_datasets_of_a_cycle_are_read_at_the_same_time(library: Library) -> None:
    together = threading.Barrier(3)

    def on_read(number: int, place: int) -> None:
        if place > 1:
            together.wait(SECONDS)

    library.on_read = on_read
    ds = InterleaveIterDataset([library.file(number, 6) for number in range(3)], cycle_length=3)
    with all_threads_end():
        assert list(ds) == [(number, place) for place in range(6) for number in range(3)]


@pytest.mark.usefixtures("nothing_is_slow")
def test_read_ahead_starts_when_it_is_requested(library: Library) -> None:
    ds = InterleaveIterDataset(
        [library.file(number) for number in range(5)], cycle_length=3, num_make_iter_threads=2
    )
    with all_threads_end(), iter(ds) as iterator:
        iterator.start_prefetch()
        library.wait_for(lambda: library.read == {0: 1, 1: 1, 2: 1, 3: 1})
        assert iterator.get_state()["iterators_in_use_states"] == [0, 0, 0]
        assert next(iterator) == (0, 0)
    assert sorted(library.closed) == [0, 1, 2, 3]


@pytest.mark.usefixtures("nothing_is_slow")
def test_datasets_that_are_quick_get_no_threads(
    library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(opener, "ahead", lambda: pytest.fail("There is nothing to gain."))
    files = [library.file(number, 30) for number in range(3)]
    assert len(list(InterleaveIterDataset(files, cycle_length=2))) == 90


def test_reading_returns_to_the_consumer_when_elements_are_quick_after_all(
    library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    judgement = {"slow": True}
    monkeypatch.setattr(LatencyMonitor, "slow", property(lambda self: judgement["slow"]))
    monkeypatch.setattr(LatencyMonitor, "quick", property(lambda self: not judgement["slow"]))
    readers: dict[int, threading.Thread] = {}

    def on_read(number: int, place: int) -> None:
        readers[place] = threading.current_thread()

    library.on_read = on_read
    with all_threads_end():
        iterator = iter(InterleaveIterDataset([library.file(0, 30)], cycle_length=1))
        first = [next(iterator) for _ in range(10)]
        judgement["slow"] = False
        assert first + list(iterator) == [(0, place) for place in range(30)]
    here = threading.current_thread()
    assert readers[6] is not here
    assert all(readers[place] is here for place in range(15, 30))


@pytest.mark.usefixtures("slow")
@pytest.mark.parametrize("what", ["open", "read"])
def test_an_error_is_raised_when_its_slot_is_due(what: str, library: Library) -> None:
    broken = {2}

    def fail(number: int, place: int = 1) -> None:
        if number in broken and place == 1:
            broken.discard(number)
            raise OSError(f"file {number} is away")

    setattr(library, f"on_{what}", fail)
    ds = InterleaveIterDataset([library.file(number, 3) for number in range(4)], cycle_length=2)
    plain: list[Any] = []
    errors: list[tuple[str, Any]] = []
    with all_threads_end():
        iterator = iter(ds)
        while True:
            try:
                plain.append(next(iterator))
            except StopIteration:
                break
            except OSError as error:
                errors.append((str(error), plain[-1]))
    assert errors == [("file 2 is away", (1, 2) if what == "open" else (3, 0))]
    expected = {(number, place) for number in range(4) for place in range(3)}
    assert set(plain) == expected - (set() if what == "open" else {(2, 1)})


@pytest.mark.usefixtures("slow")
@pytest.mark.parametrize("how", ["close", "drop", "end", "set_state"])
def test_nothing_is_left_open(how: str, library: Library) -> None:
    ds = InterleaveIterDataset(
        [library.file(number) for number in range(6)],
        cycle_length=2,
        num_make_iter_threads=2,
        make_iter_buffer_size=2,
    )
    with all_threads_end():
        iterator = iter(ds)
        state = iterator.get_state()
        for _ in range(5):
            next(iterator)
        match how:
            case "close":
                iterator.close()
            case "drop":
                reference = weakref.ref(iterator)
                del iterator
                assert reference() is None
                return
            case "end":
                assert len(list(iterator)) == 19
            case "set_state":
                iterator.set_state(state)
                assert len(list(iterator)) == 24
    assert sorted(library.closed) == sorted(library.opened)


@pytest.mark.usefixtures("nothing_is_slow")
@pytest.mark.parametrize("started", [False, True])
def test_a_closed_iterator_keeps_its_state(started: bool, library: Library) -> None:
    ds = InterleaveIterDataset([library.file(number) for number in range(3)], cycle_length=3)
    iterator = iter(ds)
    if started:
        next(iterator)
    iterator.close()
    states = iterator.get_state()["iterators_in_use_states"]
    assert states == [int(started), 0, 0]
    assert sorted(library.closed) == sorted(library.opened)


@pytest.mark.usefixtures("nothing_is_slow")
def test_a_dataset_is_not_opened_before_something_of_it_is_needed(library: Library) -> None:
    iterator = iter(
        InterleaveIterDataset([library.file(number) for number in range(3)], cycle_length=3)
    )
    assert not library.opened
    next(iterator)
    assert library.opened == [0]
    assert iterator.get_state()["iterators_in_use_states"] == [1, 0, 0]
    assert library.opened == [0, 1, 2]


# The judgement


@pytest.mark.parametrize(
    ("seconds", "slow", "quick"),
    [
        ([], False, False),
        ([2.0] * 3, False, False),
        ([2.0] * 4, True, False),
        ([2.0, 2.0, 0.9, 2.0], False, False),
        ([0.1, 2.0, 2.0, 2.0, 2.0], True, False),
        ([26.0], True, False),
        ([26.0, 24.0], False, False),
        ([2.0, 2.0, 2.0, 0.2], False, True),
    ],
)
def test_only_what_is_always_slow_counts_as_slow(
    seconds: list[float], slow: bool, quick: bool
) -> None:
    watch = LatencyMonitor(limit=1.0, times=4)
    for taken in seconds:
        watch.add(taken)
    assert (watch.slow, watch.quick) == (slow, quick)
    watch.reset()
    assert (watch.slow, watch.quick) == (False, False)
    assert watch.rules_out(0.9)
    assert not watch.rules_out(1.1)
