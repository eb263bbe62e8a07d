"""Preemption of a call at a chosen step by a complete call in another thread.

Races are rare when threads switch at random, since the steps between which they show are few. Here a
trace function stops the first call before one bytecode of the traced package, the second call runs to
its end in another thread, and the first continues. Trying the steps one by one finds each race of two
calls in Python code with certainty. A race inside of a call of an extension module is not reached.
"""

from __future__ import annotations

import random
import sys
import threading
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Any

MOST_STEPS = 160
"""The number of steps at which a call is preempted."""

_WAIT = 0.1
_WAITS = 8
_SHORT_WAIT = 0.005
"""Seconds to wait for the second call, which waits itself if the first holds a lock; the short time
applies after it waited several times."""

_SEED = 20_260_218
_KIT = __name__.partition(".testing")[0] + ".testing"
_EXCLUDED = ("threading", "importlib", "_frozen_importlib", _KIT)


class Preemption:
    """Calls that are preempted by other calls.

    Args:
        package: The top-level package whose bytecodes are steps; other code is traced by line.
    """

    def __init__(self, package: str):
        self._package = package
        self._waits = 0

    def steps(self, call: Callable[[], Any]) -> Sequence[int]:
        """Return the steps of a call at which to preempt it: all of them, or a seeded choice."""
        own, others = self._count(call)
        chosen = random.Random(_SEED)
        if len(own) > MOST_STEPS:
            own = chosen.sample(own, MOST_STEPS)
        room = MOST_STEPS - len(own)
        return sorted(own + (others if len(others) <= room else chosen.sample(others, room)))

    def run(self, call: Callable[[], Any], step: int, other: Callable[[], Any]) -> None:
        """Call a function and preempt it at one step by another function in another thread."""
        ended = threading.Event()

        def second() -> None:
            try:
                other()
            finally:
                ended.set()

        thread = threading.Thread(target=second, daemon=True)
        count = 0

        def at_step(frame: FrameType) -> None:
            nonlocal count
            if count == step:
                thread.start()
                if not ended.wait(_WAIT if self._waits < _WAITS else _SHORT_WAIT):
                    self._waits += 1
            count += 1

        self._trace(call, at_step)
        if thread.ident is not None:
            thread.join()

    def _count(self, call: Callable[[], Any]) -> tuple[list[int], list[int]]:
        own: list[int] = []
        others: list[int] = []

        def at_step(frame: FrameType) -> None:
            steps = own if self._is_own(frame) else others
            steps.append(len(own) + len(others))

        self._trace(call, at_step)
        return own, others

    def _trace(self, call: Callable[[], Any], at_step: Callable[[FrameType], None]) -> None:
        """Call a function in this thread with `at_step` called before each step."""

        def local(frame: FrameType, event: str, argument: Any) -> Any:
            if event == "opcode" or (event == "line" and not frame.f_trace_opcodes):
                at_step(frame)
            return local

        def enter(frame: FrameType, event: str, argument: Any) -> Any:
            if _module(frame).startswith(_EXCLUDED):
                return None
            frame.f_trace_opcodes = self._is_own(frame)
            return local

        before = sys.gettrace()
        sys.settrace(enter)
        try:
            call()
        finally:
            sys.settrace(before)

    def _is_own(self, frame: FrameType) -> bool:
        return _module(frame).partition(".")[0] == self._package


def _module(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", ""))
