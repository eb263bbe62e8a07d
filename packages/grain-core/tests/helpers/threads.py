"""Threads of the library, seen from a test."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable

from .processes import PATIENCE


def new_threads(before: Iterable[threading.Thread], prefix: str = "") -> list[threading.Thread]:
    """Return the threads that exist now, started or about to start, and did not exist before."""
    old = set(before)
    return [t for t in threading.enumerate() if t not in old and t.name.startswith(prefix)]


def wait_for_end(threads: Callable[[], list[threading.Thread]]) -> None:
    """Wait until a function that lists threads lists none.

    A thread that is about to start is listed by `threading.enumerate`, and cannot be joined yet.
    """
    deadline = time.monotonic() + PATIENCE
    while left := threads():
        assert time.monotonic() < deadline, f"threads outlive their iterator: {left}"
        for thread in left:
            if thread.is_alive():
                thread.join(1.0)
        time.sleep(0.001)
