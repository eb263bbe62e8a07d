"""The number of workers that the consumer's waiting calls for."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator

# Seconds of a measurement; shares of it that the consumer waits, above which workers are added and below
# which they are too many; measurements in a row before one is removed.
_WINDOW_SECONDS = 5.0
_GROW_SHARE = 0.1
_SHRINK_SHARE = 0.01
_SHRINK_WINDOWS = 6


class DemandMonitor:
    """Measures how long the consumer waits, and adapts the number of workers.

    Args:
        least: Fewest workers.
        most: Most workers.
        clock: Returns seconds.

    >>> now = [0.0]
    >>> monitor = DemandMonitor(1, 8, lambda: now[0])
    >>> with monitor.waiting():
    ...     now[0] += 6
    >>> monitor.wanted(4)
    5
    """

    def __init__(self, least: int, most: int, clock: Callable[[], float] = time.monotonic):
        self._least = least
        self._most = most
        self._clock = clock
        self._since = clock()
        self._waited = 0.0
        self._idle_windows = 0

    @contextlib.contextmanager
    def waiting(self) -> Iterator[None]:
        """Count the time in the `with` block as waiting."""
        started = self._clock()
        try:
            yield
        finally:
            self._waited += self._clock() - started

    def wanted(self, count: int) -> int:
        """Return the number of workers to have, given that there are `count`."""
        now = self._clock()
        elapsed = now - self._since
        if self._least == self._most or elapsed < _WINDOW_SECONDS:
            return count
        share = self._waited / elapsed
        self._since, self._waited = now, 0.0
        if share > _GROW_SHARE:
            self._idle_windows = 0
            return min(self._most, max(count + 1, int(count * 1.25)))
        self._idle_windows = self._idle_windows + 1 if share < _SHRINK_SHARE else 0
        if self._idle_windows < _SHRINK_WINDOWS:
            return count
        self._idle_windows = 0
        return max(self._least, count - 1)
