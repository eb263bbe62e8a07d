"""The page of memory that a pool and its workers share beside their sockets.

It carries what both sides must see without a message: which slots are lent, which tasks are cancelled,
and the current task of each worker. Every word has one writer at a time.
"""

from __future__ import annotations

MAX_SLOTS = 1024  # per worker and direction

_RING = 1024
_RING_BYTES = 8 * _RING
_HEAD_BYTES = 64
_WORKER_BYTES = _HEAD_BYTES + 2 * (64 + MAX_SLOTS)


def control_size(worker_count: int) -> int:
    """Return the size of the control page of this many workers."""
    return _RING_BYTES + worker_count * _WORKER_BYTES


class CancelledTickets:
    """Tickets whose results are discarded; a worker that has not started such a task skips it.

    A ring of the most recent ones: losing an old entry costs a wasted computation, nothing else.
    """

    def __init__(self, memory: memoryview) -> None:
        self._ring = memory[:_RING_BYTES].cast("Q")

    def add(self, ticket: int) -> None:
        """Cancel a ticket."""
        self._ring[ticket % _RING] = ticket

    def __contains__(self, ticket: int) -> bool:
        return self._ring[ticket % _RING] == ticket


class SlotTable:
    """Which slots of one sender are lent to its receiver.

    The sender sets a slot's byte when it sends the slot; the receiver clears it when the last array over
    the slot is gone, in whatever thread that happens.
    """

    def __init__(self, memory: memoryview) -> None:
        self._refused = memory[:1]
        self.lent = memory[64 : 64 + MAX_SLOTS]

    def refuse(self) -> None:
        """Stop the sender from creating slots."""
        self._refused[0] = 1

    @property
    def refused(self) -> bool:
        """Whether the receiver accepts no new slots."""
        return self._refused[0] != 0


class WorkerPage:
    """The part of the control page that belongs to one worker."""

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
        """Whether the worker's main function was entered; before that its interpreter is starting."""
        return self._running[0] != 0

    def set_running(self) -> None:
        """Record that the worker's main function was entered."""
        self._running[0] = 1

    @property
    def ticket(self) -> int:
        """The task that the worker is computing; 0 while it is idle."""
        return self._ticket[0]

    @ticket.setter
    def ticket(self, value: int) -> None:
        self._ticket[0] = value
