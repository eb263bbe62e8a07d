"""Calls that do not return: whether a check stays in one call of the code under test.

A check that is out of time either makes progress, in many calls that return, or waits for one call that
does not. `CallWatch` tells them apart by the frames of the threads that the check has started.
"""

from __future__ import annotations

import inspect
import os
import sys
import sysconfig
from collections.abc import Iterator
from types import FrameType

KIT = os.path.dirname(__file__) + os.sep
"""The folder of this package."""

_GRAIN = os.path.dirname(os.path.dirname(__file__)) + os.sep
_LIBRARY = sysconfig.get_path("stdlib") + os.sep
_INSTALLED = (f"{os.sep}site-packages{os.sep}", f"{os.sep}dist-packages{os.sep}")
_GENERATORS = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR


class CallWatch:
    """The calls of the code under test in which the threads of a check are.

    Create it before the check starts: threads that are there already are left out, such as the one of a
    check that was abandoned.
    """

    def __init__(self) -> None:
        self._others = frozenset(sys._current_frames())
        self._pending: list[FrameType] = []

    def start(self) -> None:
        """Remember the calls that are pending now."""
        self._pending = list(self._calls())

    def update(self) -> bool:
        """Forget the calls that have returned; return whether one of those remembered is pending.

        Call it often: a remembered frame keeps its local variables alive.
        """
        if self._pending:
            current = list(self._calls())
            self._pending = [frame for frame in self._pending if frame in current]
        return bool(self._pending)

    def _calls(self) -> Iterator[FrameType]:
        for thread, frame in sys._current_frames().items():
            call = None if thread in self._others else _call_under_test(frame)
            if call is not None:
                yield call


def _call_under_test(frame: FrameType) -> FrameType | None:
    """Return the outermost call of the code under test in a stack of the kit; None without one.

    A generator keeps its frame from one element to the next, so the call inside of it is taken.
    """
    inner = []
    current: FrameType | None = frame
    while current is not None and not current.f_code.co_filename.startswith(KIT):
        inner.append(current)
        current = current.f_back
    if current is None:
        return None
    is_tested = False
    for frame in reversed(inner):
        is_tested = is_tested or not _is_library(frame.f_code.co_filename)
        if is_tested and not frame.f_code.co_flags & _GENERATORS:
            return frame
    return None


def _is_library(path: str) -> bool:
    """Return whether a file is of grain or the standard library, whose calls may wait for processes."""
    if path.startswith((_GRAIN, "<frozen ")):
        return True
    return path.startswith(_LIBRARY) and not any(folder in path for folder in _INSTALLED)
