"""Threads that end before the interpreter does.

At exit the interpreter stops daemon threads wherever they are. Inside C++ code, such as a transfer to a
device, this aborts the process. So exit waits, for a bounded time, for the element that each thread is
computing.
"""

from __future__ import annotations

import atexit
import contextlib
import threading
import time
import weakref
from collections.abc import Callable
from typing import Any

from grain._policy import current_policy

_stops: weakref.WeakKeyDictionary[threading.Thread, Callable[[], None]] = (
    weakref.WeakKeyDictionary()
)


def start_thread(
    name: str, stop: Callable[[], None], target: Callable[..., None], *arguments: Any
) -> threading.Thread:
    """Start a daemon thread.

    Args:
        name: Name of the thread.
        stop: Makes the thread end after its current element; must hold no reference to the thread's owner.
        target: Function that the thread runs.
        *arguments: Arguments of `target`.
    """
    thread = threading.Thread(target=target, args=arguments, name=name, daemon=True)
    _stops[thread] = stop
    thread.start()
    # Exit handlers run in reverse order of registration: this one must run before worker processes end,
    # for which a thread may wait, and before devices shut down, which a thread may use.
    atexit.unregister(_end_threads)
    atexit.register(_end_threads)
    return thread


def forget_threads() -> None:
    """Wait for no thread at exit, in a process that exits without tearing anything down."""
    _stops.clear()


def forget_this_thread() -> None:
    """Do not wait for the current thread at exit."""
    _stops.pop(threading.current_thread(), None)


def _end_threads() -> None:
    policy = current_policy()
    # Copied at once: running threads may start others.
    threads = [thread for ref in _stops.keyrefs() if (thread := ref()) is not None]
    running = [thread for thread in threads if thread.is_alive()]
    with contextlib.suppress(KeyboardInterrupt):  # Ctrl-C ends the wait.
        for thread in running:
            if (stop := _stops.get(thread)) is not None:
                stop()
        deadline = time.monotonic() + policy.thread_join_seconds
        for thread in running:
            while thread in _stops and thread.is_alive() and time.monotonic() < deadline:
                thread.join(policy.thread_join_poll_seconds)
