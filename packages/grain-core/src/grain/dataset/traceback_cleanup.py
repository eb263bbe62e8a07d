"""Releasing what the library's frames hold when an error passes through them."""

from __future__ import annotations

import os
from types import FrameType, TracebackType

from grain._config import config

_HIDING = ("tracebackhide", "quiet_remove_frames", "remove_frames")
_LIBRARY = os.path.join(os.path.dirname(os.path.dirname(__file__)), "")


def clear_frames(error: BaseException) -> None:
    """Clear the library's frames in the tracebacks of an error and of its causes.

    They hold iterators, and often the error itself: in a reference cycle, the resources of an iterator
    (threads, worker processes) would outlive it until the garbage collector runs. The user's frames,
    and the lines of the traceback, stay unchanged, unless `py_traceback_filtering` hides the library's.
    """
    seen: set[int] = set()
    waiting: list[BaseException | None] = [error]
    while waiting:
        current = waiting.pop()
        if current is None or id(current) in seen:
            continue
        seen.add(id(current))
        waiting += [current.__cause__, current.__context__]
        traceback = current.__traceback__
        while traceback is not None:
            _clear_with_callers(traceback.tb_frame)
            traceback = traceback.tb_next
    if config.py_traceback_filtering in _HIDING:
        error.__traceback__ = _without_library(error.__traceback__)


def _without_library(traceback: TracebackType | None) -> TracebackType | None:
    """Return a traceback without the library's frames."""
    kept: list[TracebackType] = []
    while traceback is not None:
        if not traceback.tb_frame.f_code.co_filename.startswith(_LIBRARY):
            kept.append(traceback)
        traceback = traceback.tb_next
    shown: TracebackType | None = None
    for entry in reversed(kept):
        shown = TracebackType(shown, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
    return shown


def _clear_with_callers(frame: FrameType | None) -> None:
    """Clear a frame and its callers, which have ended as well if the error was stored."""
    while frame is not None:
        if frame.f_code.co_filename.startswith(_LIBRARY):
            try:
                frame.clear()
            except RuntimeError:  # It is still running, and so are its callers.
                return
        frame = frame.f_back
