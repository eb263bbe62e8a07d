"""Executors for tests: one without processes, and one that records what a session does with its pool."""

from __future__ import annotations

from typing import Any

from grain.execution.build import build
from grain.execution.executor import ProcessExecutor
from grain.execution.plan import plan, plan_node
from grain.execution.worker_session import WorkerSession


class InlineExecutor:
    """Computes tasks in this thread when they are submitted; is its own pool.

    Attributes:
        computing: Whether a task is being computed.
    """

    closed = False

    def __init__(self, capacity: int = 2):
        self.capacity = capacity
        self.computing = False
        self.next_ticket = 1
        self._results: dict[int, Any] = {}

    @property
    def in_flight(self) -> int:
        """Number of results that were not taken."""
        return len(self._results)

    def open(self, job: Any, *, name_owner: Any, first_ticket: int) -> InlineExecutor:
        self._compute = job.start(0, self.capacity)
        self.next_ticket = first_ticket
        return self

    def submit(self, task: Any, *, worker: int | None = None) -> int:
        ticket = self.next_ticket
        self.next_ticket += 1
        self.computing = True
        self._results[ticket] = self._compute(task)
        self.computing = False
        return ticket

    def ready(self, ticket: int) -> bool:
        return True

    def result(self, ticket: int, timeout: float | None = None) -> Any:
        return self._results.pop(ticket)

    def discard(self, ticket: int) -> None:
        self._results.pop(ticket, None)

    def close(self) -> None:
        self.closed = True


class RecordingExecutor(ProcessExecutor):
    """Worker processes, with a record of the calls on their pool; is the pool of its session.

    Attributes:
        tasks: The tasks in flight by their tickets.
        last_task: The task that was submitted last.
        parts: Number of parts that were defined and not released, besides those of the job.
    """

    def __init__(self, capacity: int = 2):
        super().__init__(capacity)
        self.tasks: dict[int, Any] = {}
        self.last_task: Any = None
        self.parts = 0

    def open(self, job: Any, **options: Any) -> Any:
        self._pool: Any = super().open(job, **options)
        return self

    def __getattr__(self, name: str) -> Any:
        return getattr(self._pool, name)

    def submit(self, task: Any, *, worker: int | None = None) -> int:
        self.parts += {"define": 1, "release": -1}.get(task[1], 0)
        ticket: int = self._pool.submit(task, worker=worker)
        self.tasks[ticket] = self.last_task = task
        return ticket

    def result(self, ticket: int, timeout: float | None = None) -> Any:
        value = self._pool.result(ticket, timeout)
        del self.tasks[ticket]
        return value

    def discard(self, ticket: int) -> None:
        self._pool.discard(ticket)
        self.tasks.pop(ticket, None)

    @property
    def pending_acks(self) -> int:
        """Number of definitions and releases that were not acknowledged."""
        return sum(task[1] in ("define", "release") for task in self.tasks.values())

    def is_idle(self) -> bool:
        """Whether all tasks in flight have been computed."""
        return all(self._pool.ready(ticket) for ticket in list(self.tasks))


def iterate_inline(
    dataset: Any, executor: InlineExecutor | None = None, buffer_size: int = 1
) -> Any:
    """Return the iterator of a dataset over an inline executor."""
    return build(plan_node(dataset), WorkerSession(executor or InlineExecutor(), buffer_size))


def recorded(dataset: Any, buffer_size: int = 1) -> tuple[Any, RecordingExecutor, WorkerSession]:
    """Return an iterator over two worker processes, their recorder, and the session to close."""
    executor = RecordingExecutor()
    session = WorkerSession(executor, buffer_size)
    return build(plan(dataset), session), executor, session
