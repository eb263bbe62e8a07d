"""The page of memory that a pool and its workers share beside their sockets.

It carries what must be known without a message: which slots are lent out, which tasks are no longer
wanted, and what each worker is doing. Every word in it has one writer at a time.
"""

from __future__ import annotations

MAX_SLOTS = 1024  # per worker and direction

_RING = 1024
_RING_BYTES = 8 * _RING
_HEAD_BYTES = 64
_WORKER_BYTES = _HEAD_BYTES + 2 * (64 + MAX_SLOTS)


def control_size(worker_count: int) -> int:
    """How many bytes the control page of this many workers takes."""
    return _RING_BYTES + worker_count * _WORKER_BYTES


class Cancelled:
    """Tickets whose results nobody waits for; a worker that has not begun one skips it.

    A ring of the last so many: forgetting an old one costs a wasted computation, nothing else.
    """

    def __init__(self, memory: memoryview) -> None:
        self._ring = memory[:_RING_BYTES].cast("Q")

    def add(self, ticket: int) -> None:
        """Notes that nobody waits for this one."""
        self._ring[ticket % _RING] = ticket

    def __contains__(self, ticket: int) -> bool:
        return self._ring[ticket % _RING] == ticket


class SlotTable:
    """Which slots of one sender are with its receiver.

    The sender sets a slot's byte when it sends it; the receiver clears it when the last array over
    it is gone, from whatever thread that happens in.
    """

    def __init__(self, memory: memoryview) -> None:
        self._refused = memory[:1]
        self.lent = memory[64 : 64 + MAX_SLOTS]

    def refuse(self) -> None:
        """Asks the sender to make no new slots."""
        self._refused[0] = 1

    @property
    def refused(self) -> bool:
        """Whether the receiver asked for no new slots."""
        return self._refused[0] != 0


class WorkerPage:
    """One worker's part of the control page."""

    def __init__(self, memory: memoryview, worker: int) -> None:
        start = _RING_BYTES + worker * _WORKER_BYTES
        page = memory[start : start + _WORKER_BYTES]
        half = 64 + MAX_SLOTS
        self._ticket = page[:8].cast("Q")
        self._running = page[8:9]
        self.results = SlotTable(page[_HEAD_BYTES : _HEAD_BYTES + half])
        self.tasks = SlotTable(page[_HEAD_BYTES + half :])

    @property
    def running(self) -> bool:
        """Whether the worker's own code has begun; before that its interpreter is starting."""
        return self._running[0] != 0

    def set_running(self) -> None:
        """Says that the worker's own code has begun."""
        self._running[0] = 1

    @property
    def ticket(self) -> int:
        """The task the worker is computing; 0 while it computes none."""
        return self._ticket[0]

    @ticket.setter
    def ticket(self, value: int) -> None:
        self._ticket[0] = value
