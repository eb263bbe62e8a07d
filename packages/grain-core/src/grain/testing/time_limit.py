"""Time limits of checks: a check that hangs is abandoned and reported, and the run ends."""

from __future__ import annotations

import contextlib
import contextvars
import faulthandler
import os
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from typing import Any

_FRAMES = 3
_PACKAGE = os.path.dirname(__file__)


class TimeLimitError(Exception):
    """A call did not return within its time limit; its thread is still running."""


def call_with_limit(function: Callable[[Any], None], argument: Any, seconds: float) -> None:
    """Call a function in a thread and wait for it; raise `TimeLimitError` when it takes too long.

    Python cannot stop a thread, so a call that hangs is left behind in a daemon thread, which does
    not keep the process alive. An exception of the function is raised in the caller's thread.
    """
    raised: list[BaseException] = []

    def target() -> None:
        try:
            function(argument)
        except BaseException as error:
            raised.append(error)

    context = contextvars.copy_context()
    thread = threading.Thread(target=context.run, args=(target,), daemon=True)
    thread.start()
    thread.join(seconds)
    if thread.is_alive():
        raise TimeLimitError(f"no result within {seconds:.3g} s; it hangs in:\n{_stack(thread)}")
    if raised:
        raise raised[0]


@contextlib.contextmanager
def end_process_after(seconds: float) -> Iterator[None]:
    """Print the stacks of all threads and end this process, with 1, unless the block ends in time.

    For a program of its own. A call of an extension module that neither returns nor releases the
    interpreter lock stops every thread, so that `call_with_limit` cannot report it.
    """
    if sys.__stderr__ is None:
        yield
        return
    faulthandler.dump_traceback_later(seconds, exit=True, file=sys.__stderr__)
    try:
        yield
    finally:
        faulthandler.cancel_dump_traceback_later()


def _stack(thread: threading.Thread) -> str:
    """Return the outermost frames of a running thread that are not of this package."""
    stack = traceback.extract_stack(sys._current_frames().get(thread.ident or 0))
    ours = [n for n, frame in enumerate(stack) if frame.filename.startswith(_PACKAGE)]
    shown = stack[ours[-1] + 1 :][:_FRAMES] if ours else stack
    return "".join(traceback.format_list(shown)).rstrip()
