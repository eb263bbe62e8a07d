"""Threads that end before the interpreter does.

It stops them wherever they are. In the middle of C++ code, as that of a library which puts an element on a
device, this aborts the whole process. So the element that each of them is busy with is waited for.
"""

from __future__ import annotations

import atexit
import contextlib
import threading
import time
import weakref
from collections.abc import Callable
from typing import Any

# An element that takes longer than this is not waited for: a program that ends must end.
_PATIENCE = 2.0
_GLANCE = 0.05

_stops: weakref.WeakKeyDictionary[threading.Thread, Callable[[], None]] = (
    weakref.WeakKeyDictionary()
)


def start_thread(
    name: str, stop: Callable[[], None], target: Callable[..., None], *arguments: Any
) -> threading.Thread:
    """Starts a thread. `stop` lets it end after what it is busy with, and must not hold who started it."""
    thread = threading.Thread(target=target, args=arguments, name=name, daemon=True)
    _stops[thread] = stop
    thread.start()
    # Who is registered last is called first: before worker processes end, for which a thread may wait, and
    # before devices go, on which it may put something.
    atexit.unregister(_end_threads)
    atexit.register(_end_threads)
    return thread


def forget_threads() -> None:
    """For a process that ends without tearing anything down: nothing is waited for."""
    _stops.clear()


def forget_this_thread() -> None:
    """For a thread that will not end by itself."""
    _stops.pop(threading.current_thread(), None)


def _end_threads() -> None:
    # A list made at once: the threads are still at work, and may start others.
    threads = [thread for ref in _stops.keyrefs() if (thread := ref()) is not None]
    running = [thread for thread in threads if thread.is_alive()]
    with contextlib.suppress(KeyboardInterrupt):  # Who cannot wait need not.
        for thread in running:
            if (stop := _stops.get(thread)) is not None:
                stop()
        deadline = time.monotonic() + _PATIENCE
        for thread in running:
            while thread in _stops and thread.is_alive() and time.monotonic() < deadline:
                thread.join(_GLANCE)
