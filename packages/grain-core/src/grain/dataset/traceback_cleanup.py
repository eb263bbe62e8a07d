"""Releasing what the library's frames hold when an error passes through them."""

from __future__ import annotations

from types import FrameType

from grain.dataset.traceback_filter import is_library


def clear_frames(error: BaseException) -> None:
    """Clear the library's frames in the tracebacks of an error and of its causes.

    They hold iterators, and often the error itself: in a reference cycle, the resources of an iterator
    (threads, worker processes) would outlive it until the garbage collector runs. The user's frames,
    and the lines of the traceback, stay unchanged.
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


def _clear_with_callers(frame: FrameType | None) -> None:
    """Clear a frame and its callers, which have ended as well if the error was stored."""
    while frame is not None:
        if is_library(frame):
            try:
                frame.clear()
            except RuntimeError:  # It is still running, and so are its callers.
                return
        frame = frame.f_back
