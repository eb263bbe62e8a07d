"""The inline executor: tasks are computed in the thread that waits for them."""

from __future__ import annotations

import collections
import copy
import threading
from collections.abc import Callable, Collection
from typing import Any

from grain._policy import current_policy
from grain.execution.costs import Costs
from grain.execution.executor import Job, NotOutstanding, PoolClosed


class InlineExecutor:
    """Executor without workers, for debugging and for tests: breakpoints and profilers see all tasks.

    >>> import grain
    >>> options = grain.MultiprocessingOptions(executor="inline")
    >>> list(grain.MapDataset.range(3).to_iter_dataset().mp_prefetch(options))
    [0, 1, 2]
    """

    capacity = 1

    def open(
        self, job: Job, *, name_owner: Callable[[Any], str | None] | None = None
    ) -> InlinePool:
        """Start the job in this thread."""
        del name_owner
        return InlinePool(job)


class InlinePool:
    """Tasks that wait until a thread needs the result of one of them.

    Tasks are computed in the order of submission, by the thread that calls `wait` or `result`. A task
    that was interrupted is computed again.
    """

    capacity = 1

    def __init__(self, job: Job):
        policy = current_policy()
        self.costs = Costs(
            block_seconds=policy.block_seconds,
            message_seconds=0.0,
            element_seconds=0.0,
            byte_seconds=0.0,
            max_bytes=policy.in_process_bytes,
        )
        self.closed = False
        self._compute: Any = job.start(0, 1)
        self._next_ticket = 1
        self._queue: collections.OrderedDict[int, Any] = collections.OrderedDict()
        self._results: dict[int, tuple[Any, BaseException | None]] = {}
        # Held while a task is computed; entered again by a task that iterates over this pool.
        self._lock = threading.RLock()

    def submit(self, task: Any, *, affinity: int | None = None) -> int:
        """Queue a task."""
        del affinity
        self._require_open()
        ticket = self._next_ticket
        self._next_ticket += 1
        self._queue[ticket] = task
        return ticket

    def define(self, number: int, part: bytes, *, affinity: int | None = None) -> None:
        """Define a part."""
        del affinity
        self._require_open()
        self._compute((number, "define", part))

    def release(self, number: int) -> None:
        """Release a part."""
        if not self.closed:
            self._compute((number, "release"))

    def wait(self, tickets: Collection[int], timeout: float | None = None) -> set[int]:
        """Compute tasks until one of the tickets has a result."""
        ready = {ticket for ticket in tickets if self.ready(ticket)}
        if ready or timeout == 0 or not tickets:
            return ready
        with self._lock:
            while not (ready := {ticket for ticket in tickets if self.ready(ticket)}):
                self._compute_next()
        return ready

    def _compute_next(self) -> None:
        ticket, task = next(iter(self._queue.items()))
        value, failure = None, None
        try:
            # By value: the task is computed again after an interrupt.
            value = self._compute(copy.deepcopy(task))
        except (Exception, SystemExit) as error:
            failure = error
        if self._queue.pop(ticket, self) is not self:  # It was not discarded meanwhile.
            self._results[ticket] = value, failure

    def result(self, ticket: int) -> Any:
        """Return the result of a task, computed now if need be."""
        while not self.ready(ticket):
            self.wait((ticket,))
        self._require_open()
        if ticket not in self._results:
            raise NotOutstanding(f"Ticket {ticket} was taken or discarded, or never issued.")
        value, failure = self._results.pop(ticket)
        if failure is not None:
            raise failure
        return value

    def ready(self, ticket: int) -> bool:
        """Return whether the task was computed."""
        return self.closed or ticket not in self._queue

    def discard(self, ticket: int) -> None:
        """Drop a task."""
        self._queue.pop(ticket, None)
        self._results.pop(ticket, None)

    def close(self) -> None:
        """Drop all tasks and parts."""
        if not self.closed:
            self.closed = True
            self._queue.clear()
            self._results.clear()
            if hasattr(self._compute, "close"):
                self._compute.close()

    def _require_open(self) -> None:
        if self.closed:
            raise PoolClosed("The pool is closed and returns no more results.")
