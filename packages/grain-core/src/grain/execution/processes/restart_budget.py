"""How many workers a pool may replace within a time window."""

from __future__ import annotations

from collections import deque


class RestartBudget:
    """Restarts that are left; a restart counts for `seconds`, so rare losses never add up.

    Args:
        restarts: Most restarts within the window.
        seconds: Length of the window.

    >>> budget = RestartBudget(2, seconds=60)
    >>> [budget.take(now) for now in (0, 1, 2, 61)]
    [True, True, False, True]
    """

    def __init__(self, restarts: int, seconds: float) -> None:
        self.restarts = restarts
        self.seconds = seconds
        self._taken: deque[float] = deque()

    def take(self, now: float) -> bool:
        """Use one restart at time `now`; return whether there was one left."""
        while self._taken and self._taken[0] + self.seconds <= now:
            self._taken.popleft()
        if len(self._taken) >= self.restarts:
            return False
        self._taken.append(now)
        return True
