"""Calls that Ctrl-C cannot tear apart.

Python raises KeyboardInterrupt in the main thread only, between any two calls: also between the start of a
process and the statement that stores its id. A call in another thread is not interrupted.
"""

from __future__ import annotations

import _thread
import os
import time
from collections.abc import Callable
from typing import Any


def run_uninterrupted(function: Callable[[], Any]) -> None:
    """Call `function` in a thread of its own and wait for it; raise its error.

    An interrupt ends the wait, not the call, so `function` must lock what it shares with the caller.
    """
    done = _thread.allocate_lock()
    done.acquire()
    errors: list[BaseException] = []
    thread = 0

    def run() -> None:
        nonlocal thread
        thread = _thread.get_native_id()
        try:
            function()
        except BaseException as error:
            errors.append(error)
        finally:
            done.release()

    try:
        _thread.start_new_thread(run, ())
    except RuntimeError:  # The system or an exiting interpreter refuses threads.
        function()
        return
    done.acquire()
    _wait_for_exit(thread)
    if errors:
        raise errors.pop()


def _wait_for_exit(thread: int) -> None:
    """Wait until the system has removed a thread that is about to exit: the caller may fork next."""
    deadline = time.monotonic() + _EXIT_SECONDS
    while os.path.exists(f"/proc/self/task/{thread}") and time.monotonic() < deadline:
        time.sleep(0.0001)


_EXIT_SECONDS = 1.0
