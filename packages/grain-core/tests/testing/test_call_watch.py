"""Calls that do not return are distinguished from calls that do, in the threads of a check."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from grain.testing.case import Case
from grain.testing.subject import Subject
from grain.testing.time_limit import TimeLimitError, call_with_limit


class Steps:
    """A stream whose steps wait for a permission each."""

    def __init__(self) -> None:
        self.permitted = threading.Semaphore(0)
        self.reached = threading.Semaphore(0)
        self.taken = 0

    def __iter__(self) -> Iterator[int]:
        return self

    def __next__(self) -> int:
        self.reached.release()
        self.permitted.acquire()
        self.taken += 1
        return self.taken

    def generate(self) -> Iterator[int]:
        yield from self

    def allow_more(self) -> None:
        while self.reached.acquire(timeout=0.01):
            self.permitted.release()


def is_stuck(stream: Any, steps: Steps, allowed: bool) -> bool:
    """Read a stream for ever, in the kit, and return whether it is found to be stuck."""
    subject = Subject(Case(name="steps", kind="iter-source", make=lambda: stream))
    ended = threading.Event()

    def allow() -> None:
        while not ended.is_set():
            steps.allow_more()

    thread = threading.Thread(target=allow, daemon=True)
    if allowed:
        thread.start()
    with pytest.raises(TimeLimitError) as caught:
        call_with_limit(lambda _: read_for_ever(subject, stream), None, 1.0, 0.2)
    ended.set()
    return caught.value.is_stuck


def read_for_ever(subject: Subject, stream: Any) -> None:
    while True:
        subject.rest(stream)


@pytest.mark.parametrize("made", [iter, Steps.generate])
def test_a_stream_that_waits_is_stuck_and_one_that_advances_is_not(made: Callable[[Any], Any]):
    steps = Steps()
    assert is_stuck(made(steps), steps, allowed=False)
    steps = Steps()
    assert not is_stuck(made(steps), steps, allowed=True)


def test_a_thread_of_an_earlier_check_is_left_out():
    hung, steps = Steps(), Steps()
    assert is_stuck(hung, hung, allowed=False)
    assert not is_stuck(steps, steps, allowed=True)
