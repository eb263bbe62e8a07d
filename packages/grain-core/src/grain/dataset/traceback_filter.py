"""Which frames of the library the traceback of an error shows: the setting `py_traceback_filtering`.

| value | effect |
| --- | --- |
| `off` | the traceback is left as it is |
| `quiet_remove_frames` | the library's frames are removed; a note says so |
| `remove_frames` | the same, and the unchanged traceback is the cause of the error |
| `tracebackhide` | the library's frames have a local `__tracebackhide__`, which pytest and IPython respect |
| `auto` | `tracebackhide` in IPython, else `quiet_remove_frames` |

Frames of users stay, also those of a worker process. Worker processes filter nothing: the consuming process
does, with its own setting. Interrupts keep all frames.
"""

from __future__ import annotations

import os
import sys
from types import FrameType, TracebackType
from typing import Any

from grain._config import config

LIBRARY = os.path.join(os.path.dirname(os.path.dirname(__file__)), "")

_NOTE = (
    "(The frames inside grain are left out of this traceback; "
    "`grain.config.update('py_traceback_filtering', 'off')`, or GRAIN_PY_TRACEBACK_FILTERING=off in the "
    "environment, shows them.)"
)


class UnfilteredTraceback(Exception):  # noqa: N818 - not raised, only shown
    """The cause of an error whose traceback was filtered: it has the unchanged traceback."""


def filter_traceback(error: BaseException) -> None:
    """Remove or mark the library's frames in the traceback of an error, as the setting says."""
    mode = _mode()
    if mode == "off" or not isinstance(error, Exception):
        return  # An interrupt shows where it came.
    before = error.__traceback__
    if mode == "tracebackhide":
        _mark(before)
        return
    shown = _without_library(before)
    if _length(shown) == _length(before):
        return
    if mode == "remove_frames" and not isinstance(error.__cause__, UnfilteredTraceback):
        _keep_as_cause(error)
    elif mode == "quiet_remove_frames" and _NOTE not in getattr(error, "__notes__", ()):
        error.add_note(_NOTE)
    error.__traceback__ = shown


def _mode() -> str:
    mode = str(config.py_traceback_filtering)
    if mode in ("off", "tracebackhide", "remove_frames"):
        return mode
    # `auto`, `quiet_remove_frames`, and any other value: google/grain takes all values.
    return "tracebackhide" if mode == "auto" and _in_ipython() else "quiet_remove_frames"


def _in_ipython() -> bool:
    ipython: Any = sys.modules.get("IPython")
    get_shell = getattr(ipython, "get_ipython", None)
    return get_shell is not None and get_shell() is not None


def is_library(frame: FrameType) -> bool:
    """Return whether a frame runs code of the library."""
    return frame.f_code.co_filename.startswith(LIBRARY)


def _keep_as_cause(error: BaseException) -> None:
    unfiltered = UnfilteredTraceback(
        f"{type(error).__name__}: {error}\n\nThis is the error with all of its frames. The traceback "
        "below is without the frames inside grain."
    )
    unfiltered.__cause__, unfiltered.__context__ = error.__cause__, error.__context__
    unfiltered.__suppress_context__ = error.__suppress_context__
    error.__cause__ = unfiltered.with_traceback(error.__traceback__)


def _mark(traceback: TracebackType | None) -> None:
    while traceback is not None:
        if is_library(traceback.tb_frame):
            variables: Any = traceback.tb_frame.f_locals
            if type(variables) is dict:
                # Before Python 3.13 the frame keeps this snapshot, which refers to the iterator.
                variables.clear()
            variables["__tracebackhide__"] = True
        traceback = traceback.tb_next


def _without_library(traceback: TracebackType | None) -> TracebackType | None:
    kept: list[TracebackType] = []
    while traceback is not None:
        if not is_library(traceback.tb_frame):
            kept.append(traceback)
        traceback = traceback.tb_next
    shown: TracebackType | None = None
    for entry in reversed(kept):
        shown = TracebackType(shown, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
    return shown


def _length(traceback: TracebackType | None) -> int:
    length = 0
    while traceback is not None:
        length, traceback = length + 1, traceback.tb_next
    return length
