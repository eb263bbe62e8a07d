"""Sources whose reads wait at a gate, and a clock that the test advances."""

from __future__ import annotations

import collections
import threading
from collections.abc import Callable

PATIENCE = 10.0
"""Seconds after which something that should happen is taken not to happen."""


class Clock:
    """Stands in for the module `time` in the code that decides about threads."""

    def __init__(self) -> None:
        self.now = 0.0
        self.computed = 0.0
        self.pauses = 0

    def perf_counter(self) -> float:
        return self.now

    def thread_time(self) -> float:
        return self.computed

    def wait(self, seconds: float) -> None:
        """Let time pass without computation."""
        self.now += seconds
        self.pauses += 1

    def compute(self, seconds: float) -> None:
        """Let time pass in which the consumer computes."""
        self.now += seconds
        self.computed += seconds


class GatedSource:
    """Numbers whose reads wait at a gate, with a record of the reads.

    Args:
        length: Number of elements.
        is_open: Whether a read of an index may pass; evaluated on every change.
        on_read: Called with the index when a read starts.
    """

    def __init__(
        self,
        length: int,
        is_open: Callable[[GatedSource, int], bool] = lambda source, index: True,
        on_read: Callable[[int], None] = lambda index: None,
    ):
        self.length = length
        self.is_open = is_open
        self.on_read = on_read
        self.changed = threading.Condition()
        self.started: list[int] = []
        self.finished: list[int] = []
        self.inside = 0
        self.most_inside = 0
        self.by_thread: collections.Counter[str] = collections.Counter()

    def __len__(self) -> int:
        return self.length

    @property
    def threads(self) -> set[str]:
        """Names of the threads that have read."""
        return set(self.by_thread)

    def __getitem__(self, index: int) -> int:
        self.on_read(index)
        with self.changed:
            self.started.append(index)
            self.by_thread[threading.current_thread().name] += 1
            self.inside += 1
            self.most_inside = max(self.most_inside, self.inside)
            self.changed.notify_all()
            passed = self.changed.wait_for(lambda: self.is_open(self, index), PATIENCE)
            self.inside -= 1
            self.finished.append(index)
            self.changed.notify_all()
        if not passed:
            raise TimeoutError(f"The gate stayed shut for {index}.")
        return index

    def change(self, is_open: Callable[[GatedSource, int], bool]) -> None:
        """Replace the gate."""
        with self.changed:
            self.is_open = is_open
            self.changed.notify_all()

    def wait_until(self, condition: Callable[[], bool]) -> bool:
        """Wait for a condition that reads bring about."""
        with self.changed:
            return self.changed.wait_for(condition, PATIENCE)
