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
import time
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Any

MOST_STEPS = 160
"""The number of steps at which a call is preempted."""

_WAIT = 2.0
"""The largest number of seconds to wait for the second call, which may itself wait for the first."""

_POLL = 0.001
_SLEEP = 0.005
"""Seconds for which a thread must sleep, at least, to be taken to wait for a lock."""

_LONGEST_SLEEP = 0.05
_LONG_SLEEPS = 20
"""Seconds for which a slow call may sleep, and how often: then the calls are taken to share a lock."""

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
        self._duration = 0.0
        self._waits = 0

    def prepare(self, call: Callable[[], Any]) -> None:
        """Trace a call: since Python 3.12, bytecodes of a function are traced from its second call on."""
        for _ in range(2):
            self._trace(call, lambda frame: None)

    def steps(self, call: Callable[[], Any]) -> Sequence[int]:
        """Return the steps of a prepared call at which to preempt it: all of them, or a seeded choice."""
        started = time.perf_counter()
        own, others = self._count(call)
        self._duration = max(self._duration, time.perf_counter() - started)
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
                # Python 3.13 stops tracing the bytecodes of code that a thread runs untraced.
                self._trace(other, lambda frame: None)
            finally:
                ended.set()

        thread = threading.Thread(target=second, daemon=True)
        count = 0

        def at_step(frame: FrameType) -> None:
            nonlocal count
            if count == step:
                thread.start()
                self._wait(thread, ended)
            count += 1

        self._trace(call, at_step)
        if thread.ident is None:
            # This time the call had fewer steps: the second call runs after it.
            thread.start()
        thread.join()

    def _wait(self, thread: threading.Thread, ended: threading.Event) -> None:
        """Wait until a call in a thread has ended, or waits for a lock that the preempted call holds."""
        deadline = time.monotonic() + _WAIT
        slept = 0.0
        # A call that sleeps by itself, for a network say, is given the time it takes alone.
        alone = min(self._duration, _LONGEST_SLEEP) if self._waits < _LONG_SLEEPS else 0.0
        while slept < max(_SLEEP, alone) and time.monotonic() < deadline:
            if ended.wait(_POLL):
                return
            slept = slept + _POLL if _is_sleeping(thread) else 0.0
        self._waits += 1

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


def _is_sleeping(thread: threading.Thread) -> bool:
    """Return whether a thread waits; a thread that could run but has no processor does not."""
    try:
        with open(f"/proc/self/task/{thread.native_id}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()[0] == b"S"
    except OSError:  # other systems do not tell
        return True


def _module(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", ""))
