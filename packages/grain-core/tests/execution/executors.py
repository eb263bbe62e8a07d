"""Executors for tests: one without processes, and one that records what a session does with its pool."""

from __future__ import annotations

from typing import Any

from grain._policy import current_policy
from grain.execution.build import build
from grain.execution.costs import Costs
from grain.execution.inline_executor import InlineExecutor
from grain.execution.plan import plan, plan_node
from grain.execution.process_executor import ProcessExecutor
from grain.execution.worker_session import WorkerSession


class InlineTasks(InlineExecutor):
    """Computes tasks in this thread; is the pool of its session.

    Attributes:
        computing: Whether a task is being computed.
        submitted: Number of tasks that were submitted.
        max_bytes: Byte budget.
    """

    max_bytes = 1 << 30

    def __init__(self, capacity: int = 2):
        self.capacity = capacity
        self.computing = False
        self.submitted = 0
        self._outstanding: dict[int, Any] = {}

    @property
    def in_flight(self) -> int:
        """Number of results that were not taken."""
        return len(self._outstanding)

    @property
    def outstanding(self) -> list[Any]:
        """The tasks whose results were not taken."""
        return list(self._outstanding.values())

    def open(self, job: Any, **options: Any) -> Any:
        self._pool: Any = super().open(job, **options)
        self.costs = Costs.of_local_processes(current_policy(), max_bytes=self.max_bytes)
        return self

    def __getattr__(self, name: str) -> Any:
        return getattr(self._pool, name)

    def submit(self, task: Any, *, affinity: int | None = None) -> int:
        ticket: int = self._pool.submit(task, affinity=affinity)
        self.submitted += 1
        self._outstanding[ticket] = task
        self.computing = True
        self._pool.wait((ticket,))
        self.computing = False
        return ticket

    def result(self, ticket: int) -> Any:
        self._outstanding.pop(ticket, None)
        return self._pool.result(ticket)

    def discard(self, ticket: int) -> None:
        self._outstanding.pop(ticket, None)
        self._pool.discard(ticket)


class RecordingExecutor(ProcessExecutor):
    """Worker processes, with a record of the calls on their pool; is the pool of its session.

    Attributes:
        tasks: The tasks in flight by their tickets.
        last_task: The task that was submitted last.
        parts: Number of parts that were defined and not released, besides those of the job.
    """

    def __init__(self, capacity: int = 2, **limits: Any):
        super().__init__(capacity, **limits)
        self.tasks: dict[int, Any] = {}
        self.last_task: Any = None
        self.parts = 0

    def open(self, job: Any, **options: Any) -> Any:
        self._pool: Any = super().open(job, **options)
        return self

    def __getattr__(self, name: str) -> Any:
        return getattr(self._pool, name)

    def define(self, number: int, part: bytes, *, affinity: int | None = None) -> None:
        self.parts += 1
        self._pool.define(number, part, affinity=affinity)

    def release(self, number: int) -> None:
        self.parts -= 1
        self._pool.release(number)

    def submit(self, task: Any, *, affinity: int | None = None) -> int:
        ticket: int = self._pool.submit(task, affinity=affinity)
        self.tasks[ticket] = self.last_task = task
        return ticket

    def result(self, ticket: int) -> Any:
        self.tasks.pop(ticket, None)
        return self._pool.result(ticket)

    def discard(self, ticket: int) -> None:
        self._pool.discard(ticket)
        self.tasks.pop(ticket, None)

    def is_idle(self) -> bool:
        """Whether all tasks in flight have been computed."""
        return all(self._pool.ready(ticket) for ticket in list(self.tasks))


def iterate_inline(dataset: Any, executor: InlineTasks | None = None, buffer_size: int = 1) -> Any:
    """Return the iterator of a dataset over an inline executor."""
    return build(plan_node(dataset), WorkerSession(executor or InlineTasks(), buffer_size))


def recorded(
    dataset: Any, buffer_size: int = 1, **limits: Any
) -> tuple[Any, RecordingExecutor, WorkerSession]:
    """Return an iterator over two worker processes, their recorder, and the session to close."""
    executor = RecordingExecutor(**limits)
    session = WorkerSession(executor, buffer_size)
    return build(plan(dataset), session), executor, session
