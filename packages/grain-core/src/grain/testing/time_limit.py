"""Time limits of checks: a check that hangs is abandoned and reported, and the run ends."""

from __future__ import annotations

import contextlib
import contextvars
import faulthandler
import reprlib
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

from grain.testing.call_watch import KIT, CallWatch

_FRAMES = 3
_POLL_SECONDS = 0.02
_READS = ("__getitem__", "__getitems__", "__getcolumns__")
_ARGUMENTS = 2
"""The number of arguments of a read: the source, and the index or the indices."""


class TimeLimitError(Exception):
    """A call did not return within its time limit; its thread is still running.

    Attributes:
        stack: The frames that it is in, as text.
        is_stuck: Whether it was in one call of the code under test since `watch_from`.
    """

    def __init__(self, message: str, stack: str, is_stuck: bool):
        super().__init__(message)
        self.stack = stack
        self.is_stuck = is_stuck


def call_with_limit(
    function: Callable[[Any], None],
    argument: Any,
    seconds: float,
    watch_from: float | None = None,
) -> None:
    """Call a function in a thread and wait for it; raise `TimeLimitError` when it takes too long.

    Python cannot stop a thread, so a call that hangs is left behind in a daemon thread, which does
    not keep the process alive. An exception of the function is raised in the caller's thread.

    Args:
        function: The function.
        argument: Its argument.
        seconds: The limit.
        watch_from: The seconds after which a call of the code under test that does not return up to
            the limit makes the error `is_stuck`; None if this need not be found out.
    """
    raised: list[BaseException] = []

    def target() -> None:
        try:
            function(argument)
        except BaseException as error:
            raised.append(error)

    context = contextvars.copy_context()
    thread = threading.Thread(target=context.run, args=(target,), daemon=True)
    watch = CallWatch()
    thread.start()
    is_stuck = False
    if watch_from is None:
        thread.join(seconds)
    else:
        is_stuck = _join(thread, seconds, watch, watch_from)
    if thread.is_alive():
        stack = _stack(thread)
        raise TimeLimitError(
            f"no result within {seconds:.3g} s; it hangs in:\n{stack}", stack, is_stuck
        )
    if raised:
        raise raised[0]


def _join(thread: threading.Thread, seconds: float, watch: CallWatch, watch_from: float) -> bool:
    """Wait for a thread; return whether a call that is pending after `watch_from` is so at the end."""
    deadline = time.monotonic() + seconds
    thread.join(watch_from)
    watch.start()
    is_stuck = watch.update()
    while thread.is_alive() and (left := deadline - time.monotonic()) > 0:
        thread.join(min(left, _POLL_SECONDS) if is_stuck else left)
        is_stuck = watch.update()
    return is_stuck


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
    frame = sys._current_frames().get(thread.ident or 0)
    frames = list(traceback.walk_stack(frame))[::-1] if frame is not None else []
    ours = [n for n, (each, _) in enumerate(frames) if each.f_code.co_filename.startswith(KIT)]
    # A call of an extension module has no frame: then the call in the kit is shown.
    first = min(ours[-1] + 1, len(frames) - 1) if ours else 0
    shown = frames[first:][: _FRAMES if ours else None]
    summary = traceback.StackSummary.extract(iter(shown))
    text = "".join(traceback.format_list(summary)).rstrip()
    return text + "".join(_index_read(each) for each, _ in shown[:1])


def _index_read(frame: FrameType) -> str:
    """Return a line with the index that a frame reads; nothing if it reads none."""
    code = frame.f_code
    if code.co_name not in _READS or code.co_argcount < _ARGUMENTS:
        return ""
    index = frame.f_locals.get(code.co_varnames[1])
    return f"\n  with {code.co_varnames[1]} = {reprlib.repr(index)}"
