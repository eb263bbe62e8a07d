"""The frames of a worker's traceback, in a form that travels, and a traceback made of them in the parent.

Tools that read tracebacks (`traceback.extract_tb`, debuggers, error trackers) then find the user's functions
that failed in a worker. The frames have file, line and name, but no local variables.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Iterable
from types import FrameType, FunctionType, TracebackType
from typing import Any

Frames = tuple[tuple[str, int, str], ...]

# Of an endless recursion, the last frames are enough.
_MOST_FRAMES = 100


def frames_of(error: BaseException) -> Frames:
    """Return file, line and function name of each frame of an error's traceback, outermost first."""
    frames = [
        (frame.f_code.co_filename, line, frame.f_code.co_name)
        for frame, line in traceback.walk_tb(error.__traceback__)
    ]
    return tuple(frames[-_MOST_FRAMES:])


def operation_of(error: BaseException) -> str:
    """Return the name of the innermost operation in an error's traceback, or an empty text."""
    found = ""
    for frame, _ in traceback.walk_tb(error.__traceback__):
        node: Any = frame.f_locals.get("self")
        if hasattr(type(node), "describe_sources"):
            found = str(node)
    return found


def traceback_of(frames: Iterable[tuple[str, int, str]]) -> TracebackType | None:
    """Return a traceback of frames that another process had.

    >>> shown = traceback_of([("a.py", 3, "outer"), ("b.py", 7, "inner")])
    >>> [(frame.name, frame.lineno) for frame in traceback.extract_tb(shown)]
    [('outer', 3), ('inner', 7)]
    """
    made: TracebackType | None = None
    for file, line, name in reversed(list(frames)):
        # Without the offset of an instruction, the line is the one given here.
        made = TracebackType(made, _frame(file, name), -1, line)
    return made


def _current_frame() -> FrameType:
    return sys._getframe()


def _frame(file: str, name: str) -> FrameType:
    """Return a finished frame of a function with this file and name."""
    code = _current_frame.__code__.replace(co_filename=file, co_name=name, co_qualname=name)
    frame: FrameType = FunctionType(code, {"sys": sys})()
    return frame
