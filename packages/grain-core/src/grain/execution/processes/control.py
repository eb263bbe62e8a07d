"""Memory that a pool and its workers share beside their sockets.

It carries what both sides must see without a message: which slots are lent, which tasks are cancelled,
and the current task of each worker. Every word has one writer at a time. Each process has a page of its
own, which is never reused: arrays over the slots of a lost worker return their slots there.
"""

from __future__ import annotations

MAX_SLOTS = 1024  # per worker and direction

_RING = 1024
_HEAD_BYTES = 64
_TABLE_BYTES = 64 + MAX_SLOTS

RING_BYTES = 8 * _RING
PAGE_BYTES = _HEAD_BYTES + 2 * _TABLE_BYTES
# In the file of a worker's page: where the worker writes its stack when the pool requests it.
STACK_OFFSET = 4096
# In place of a ticket: the worker takes a task from the queue of all workers, and may have it already.
TAKING = (1 << 64) - 1


class CancelledTickets:
    """Tickets whose results are discarded; a worker that has not started such a task skips it.

    A ring of the most recent ones: losing an old entry costs a wasted computation, nothing else.
    """

    def __init__(self, memory: memoryview) -> None:
        self._ring = memory[:RING_BYTES].cast("Q")

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
    """The page of one worker process.

    Attributes:
        current: One word: the task that the worker computes, `TAKING`, or 0 while it is idle.
        results: Slots of the worker that are lent to the pool.
        tasks: Slots of the pool that are lent to the worker.
    """

    def __init__(self, memory: memoryview) -> None:
        self.current = memory[:8].cast("Q")
        self._phase = memory[8:9]
        self.results = SlotTable(memory[_HEAD_BYTES : _HEAD_BYTES + _TABLE_BYTES])
        self.tasks = SlotTable(memory[_HEAD_BYTES + _TABLE_BYTES : PAGE_BYTES])

    @property
    def running(self) -> bool:
        """Whether the worker's main function was entered; before that its interpreter is starting."""
        return self._phase[0] >= 1

    @property
    def loaded(self) -> bool:
        """Whether the worker has loaded its job."""
        return self._phase[0] >= 2

    def set_running(self) -> None:
        """Record that the worker's main function was entered."""
        self._phase[0] = 1

    def set_loaded(self) -> None:
        """Record that the worker has loaded its job."""
        self._phase[0] = 2
