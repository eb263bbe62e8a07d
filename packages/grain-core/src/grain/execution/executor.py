"""The contract between worker sessions and the executors that compute their tasks.

An executor is a value that opens a pool for a job; a pool computes the tasks of one session. A job is
started once in each worker, where it returns the function that computes tasks. Tasks are pure functions of
their arguments and of the parts that the job holds, so any of them may be computed twice. Delivery order,
resubmission of lost tasks, suppression of duplicates, backpressure, hedging and the search for tasks that
end their workers belong to the session, so every executor has them.

The loss of a worker is an event of the tasks that it had: `result` of their tickets raises `TaskLost`. An
error of the pool as a whole (`WorkerDied`) is raised only when workers cannot be replaced any more.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, Protocol, runtime_checkable

from grain.execution.costs import Costs
from grain.execution.processes.error_report import TaskLost, WorkerDied
from grain.execution.processes.job import Job
from grain.execution.processes.pool_errors import NotOutstanding, PoolClosed, PoolInterrupted

__all__ = [
    "Costs",
    "Executor",
    "Job",
    "NotOutstanding",
    "PoolClosed",
    "PoolInterrupted",
    "TaskLost",
    "TaskPool",
    "WorkerDied",
]


@runtime_checkable
class TaskPool(Protocol):
    """Workers of one session.

    Methods may be called from several threads. Only `wait`, `result` and `close` block.
    """

    @property
    def capacity(self) -> int:
        """Number of live workers; may change at any time, and be 0 while lost workers are replaced."""

    @property
    def costs(self) -> Costs:
        """The cost model by which the session sizes and paces tasks."""

    @property
    def closed(self) -> bool:
        """Whether `close` was called."""

    def submit(self, task: Any, *, affinity: int | None = None) -> int:
        """Submit a task; return its ticket.

        Args:
            task: Passed by value to the job's function.
            affinity: Tasks with equal affinity are computed by one worker, in the order of submission.
                When that worker is lost, the next task with the affinity is given to another one. Tasks
                without affinity are computed by any worker. While there is no worker, tasks wait for one.
        """

    def define(self, number: int, part: bytes, *, affinity: int | None = None) -> None:
        """Give a part to all workers, or to the worker of an affinity, before any task submitted later.

        The job's function receives it as the task `(number, "define", part)`, whose result is ignored.
        Workers that start later receive the definitions in force before any task.
        """

    def release(self, number: int) -> None:
        """Remove a part: the job's function receives `(number, "release")`."""

    def wait(self, tickets: Collection[int], timeout: float | None = None) -> set[int]:
        """Wait until `result` of some of the tickets would not block; return those.

        The returned set is empty after `timeout` seconds, and when the capacity has changed.
        """

    def result(self, ticket: int) -> Any:
        """Wait for a task and return its result or raise its error; possible once per ticket.

        Raise `TaskLost` if its worker was lost, `NotOutstanding` if the ticket was taken or discarded,
        `WorkerDied` if lost workers cannot be replaced, `PoolClosed` after `close`, and `PoolInterrupted`
        after an interrupt that leaves the pool unusable.
        """

    def ready(self, ticket: int) -> bool:
        """Return whether `result(ticket)` would not block."""

    def discard(self, ticket: int) -> None:
        """Cancel a task and drop its result; a worker that has not started the task skips it."""

    def close(self) -> None:
        """End the workers and release everything that the pool holds. Idempotent."""


@runtime_checkable
class Executor(Protocol):
    """A way to compute tasks: cheap to create, without resources until a pool is opened."""

    @property
    def capacity(self) -> int:
        """Number of workers that a pool has at first."""

    def open(self, job: Job, *, name_owner: Callable[[Any], str | None]) -> TaskPool:
        """Open a pool whose workers hold `job`.

        Args:
            job: Started in every worker.
            name_owner: Returns the user's name of an object, or None, for error messages.
        """
