"""The soft memory limit of a worker: checked between tasks, exceeded by at most one task."""

from __future__ import annotations

import os
import time

# Reading the resident size takes microseconds, so it is not done after each of many short tasks.
_CHECK_SECONDS = 0.05


class MemoryLimit:
    """Resident bytes that a process may have between two tasks.

    Args:
        limit: Most resident bytes.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._checked = 0.0

    def require_room(self) -> None:
        """Raise ValueError if the process has no room for tasks: it would be replaced after each of them."""
        resident = _resident_bytes()
        if resident >= self._limit:
            raise ValueError(
                f"The memory limit of a worker process is {_mebibytes(self._limit)}, and it needs "
                f"{_mebibytes(resident)} before its first task. Set `worker_memory_limit` well above that."
            )

    def exceeded(self) -> str | None:
        """Return what happened if the process has grown beyond the limit."""
        now = time.monotonic()
        if now - self._checked < _CHECK_SECONDS:
            return None
        self._checked = now
        resident = _resident_bytes()
        if resident < self._limit:
            return None
        return f"it has {_mebibytes(resident)} of memory; the limit is {_mebibytes(self._limit)}"


def _resident_bytes() -> int:
    try:
        with open("/proc/self/statm", "rb", buffering=0) as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0  # Not a Linux system: there is no limit.


def _mebibytes(count: int) -> str:
    return f"{count / (1 << 20):.0f} MiB"
