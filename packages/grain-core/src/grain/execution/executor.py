"""The contract between worker sessions and the executors that compute their tasks.

An executor opens a pool for a job; a pool computes the tasks of one session. Tasks are pure functions of
their arguments and of the objects that the job holds, so a session may submit a lost task again. Delivery
order, resubmission and backpressure belong to the session and its iterators, not to the pool.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from grain.execution.processes.pool import Job, WorkerPool


class TaskPool(Protocol):
    """Workers of one session."""

    @property
    def capacity(self) -> int:
        """Number of workers, numbered from 0."""

    @property
    def next_ticket(self) -> int:
        """Number of the next ticket."""

    @property
    def closed(self) -> bool:
        """Whether `close` was called."""

    def submit(self, task: Any, *, worker: int | None = None) -> int:
        """Submit a task to any worker, or to one of them, in order; return its ticket without blocking."""

    def result(self, ticket: int, timeout: float | None = None) -> Any:
        """Wait for a task and return its result or raise its error; possible once per ticket."""

    def ready(self, ticket: int) -> bool:
        """Return whether `result(ticket)` would not block."""

    def discard(self, ticket: int) -> None:
        """Cancel a task and drop its result."""

    def close(self) -> None:
        """End the workers. Idempotent."""


class Executor(Protocol):
    """A way to compute tasks; cheap to create, holds no resources until a pool is opened."""

    def open(
        self, job: Job, *, name_owner: Callable[[Any], str | None], first_ticket: int
    ) -> TaskPool:
        """Open a pool whose workers hold `job`.

        Args:
            job: Loaded by every worker.
            name_owner: Returns the user's name of an object, or None, for error messages.
            first_ticket: Number of the first ticket.
        """

    @property
    def capacity(self) -> int:
        """Number of workers of a pool."""


class ProcessExecutor:
    """Executor of tasks in local worker processes.

    Args:
        capacity: Number of workers.
        worker_init_fn: Called in each worker with its index and the number of workers.
    """

    def __init__(self, capacity: int, worker_init_fn: Callable[[int, int], None] | None = None):
        self.capacity = capacity
        self._worker_init_fn = worker_init_fn

    def open(
        self, job: Job, *, name_owner: Callable[[Any], str | None], first_ticket: int
    ) -> TaskPool:
        """Start worker processes."""
        return WorkerPool(
            job,
            num_workers=self.capacity,
            worker_init_fn=self._worker_init_fn,
            name_owner=name_owner,
            first_ticket=first_ticket,
        )
