"""Parents of several kinds, a check of states, and interrupts while the consumer waits."""

from __future__ import annotations

import contextlib
import json
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any

import pytest

import grain
from grain.dataset.interleave.cycle import LatencyMonitor

from .helpers.pipelines import INLINE, plain, take

# Where the library waits for its threads.
_WAITING = {"first", "read", "take", "wait"}


@contextlib.contextmanager
def _interrupting(ready: Callable[[], bool]) -> Iterator[None]:
    main = threading.get_ident()
    over = threading.Event()

    def interrupt() -> None:
        last = None
        while not over.wait(0.001):
            frame = sys._current_frames()[main]
            place = (frame.f_code.co_name, frame.f_lasti)
            # Seen there twice in a row when nothing else can happen any more: it waits.
            if ready() and place == last and place[0] in _WAITING:
                # To the thread that waits: another one that received it would not wake it.
                signal.pthread_kill(main, signal.SIGUSR1)
                return
            last = place

    before = signal.signal(signal.SIGUSR1, signal.default_int_handler)
    thread = threading.Thread(target=interrupt)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        signal.signal(signal.SIGUSR1, before)


@pytest.fixture
def interrupt_in_wait() -> Callable[[Callable[[], bool]], AbstractContextManager[None]]:
    """A context in which Ctrl-C strikes when something is ready and this thread waits."""
    return _interrupting


class HandWrittenIterDataset(grain.IterDataset):
    """A dataset as users write it: without chunks, and with live states."""

    def __init__(self, elements: Sequence[Any]):
        super().__init__()
        self._elements = elements

    def __iter__(self) -> grain.DatasetIterator:
        return HandWrittenIterator(self._elements)


class HandWrittenIterator(grain.DatasetIterator):
    def __init__(self, elements: Sequence[Any]):
        super().__init__()
        self._elements = elements
        self._place = 0

    def __next__(self) -> Any:
        if self._place >= len(self._elements):
            raise StopIteration
        self._place += 1
        return self._elements[self._place - 1]

    def get_state(self) -> dict[str, int]:
        return {"place": self._place}

    def set_state(self, state: dict[str, int]) -> None:
        self._place = state["place"]


def from_map(elements: Sequence[Any]) -> grain.IterDataset:
    return grain.MapDataset.source(list(elements)).to_iter_dataset(INLINE)


def from_threads(elements: Sequence[Any]) -> grain.IterDataset:
    dataset = grain.MapDataset.source(list(elements))
    return dataset.to_iter_dataset(grain.ReadOptions(num_threads=2, prefetch_buffer_size=4))


def through_filter(elements: Sequence[Any]) -> grain.IterDataset:
    doubled = [item for element in elements for item in ((0, element), (1, element))]
    dataset = grain.MapDataset.source(doubled).to_iter_dataset(INLINE)
    return dataset.filter(lambda pair: pair[0] == 1).map(lambda pair: pair[1])


PARENTS: dict[str, Callable[[Sequence[Any]], grain.IterDataset]] = {
    "map": from_map,
    "threads": from_threads,
    "filter": through_filter,
    "hand_written": HandWrittenIterDataset,
    "mapped_hand_written": lambda elements: HandWrittenIterDataset(elements).map(lambda x: x),
}


@pytest.fixture(params=PARENTS.values(), ids=PARENTS.keys())
def parent_of(request: pytest.FixtureRequest) -> Callable[[Sequence[Any]], grain.IterDataset]:
    """Makes an iter dataset of elements; every test runs with parents of each kind."""
    return request.param


def assert_resumes(make: Callable[[], Any], limit: int = 1000) -> list[Any]:
    """Assert that every state resumes with the same elements, through JSON, twice.

    Returns the elements.
    """
    iterator = iter(make())
    elements: list[Any] = []
    states = [json.loads(json.dumps(iterator.get_state()))]
    while len(elements) < limit and (found := take(iterator, 1)):
        elements += found
        states.append(json.loads(json.dumps(iterator.get_state())))
    again = iter(make())
    for step, state in enumerate(states):
        fresh = iter(make())
        fresh.set_state(json.loads(json.dumps(state)))
        for resumed in (fresh, again, fresh):
            resumed.set_state(json.loads(json.dumps(state)))
            assert resumed.get_state() == state, f"state right after it was set, step {step}"
            rest: list[Any] = []
            while len(rest) + step < limit and (found := take(resumed, 1)):
                rest += found
                here = resumed.get_state()
                there = iter(make())
                there.set_state(json.loads(json.dumps(here)))
                expected = elements[step + len(rest) : step + len(rest) + 2]
                assert take(there, len(expected)) == expected, f"set twice, step {step}"
                if len(rest) >= 4:
                    rest += take(resumed, limit - step - len(rest))
                    break
            assert rest == elements[step:], f"resumed at step {step}"
    return elements


@pytest.fixture
def resumes() -> Callable[..., list[Any]]:
    return assert_resumes


@pytest.fixture
def as_plain() -> Callable[[Any], Any]:
    return plain


@pytest.fixture
def nothing_is_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give interleaved datasets no threads, however busy the machine is."""
    monkeypatch.setattr(LatencyMonitor, "slow", property(lambda self: False))
