"""Real interrupts, at the moment when the consumer waits."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager

import pytest

# Where the library waits for its threads.
_WAITING = {"read", "take", "wait"}


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
                os.kill(os.getpid(), signal.SIGUSR1)
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
