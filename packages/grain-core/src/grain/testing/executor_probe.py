"""What the checks of executors compute: a part with telling methods, and a pool around it.

Workers import this module, so that executors in other processes can be checked.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from types import TracebackType
from typing import Any, TypeVar

import numpy as np

from grain._policy import current_policy
from grain.execution.executor import Executor, TaskLost, TaskPool
from grain.execution.processes.template_client import end_idle_template
from grain.execution.task_dispatcher import TaskDispatcher
from grain.testing.subject import ConsequenceError, Subject

_T = TypeVar("_T")

PART = 0
"""The number of the part that is with all workers from the start."""

_POLL_SECONDS = 0.002


class ProbePart:
    """A part of a pipeline whose methods show how an executor treats tasks."""

    def __init__(self) -> None:
        self._worker = uuid.uuid4().hex
        self._seen: dict[int, list[int]] = {}

    def __setstate__(self, state: Any) -> None:
        self.__init__()  # type: ignore[misc]

    def __getstate__(self) -> Any:
        return {"new": True}

    def echo(self, value: Any) -> Any:
        """Return the argument."""
        return value

    def fail(self, message: str) -> Any:
        """Raise an error."""
        raise LookupError(message)

    def append(self, key: int, value: int) -> tuple[str, list[int]]:
        """Return this worker's name, and the values that it has received for a key so far."""
        values = self._seen.setdefault(key, [])
        values.append(value)
        return self._worker, list(values)

    def extend(self, values: list[int]) -> list[int]:
        """Change the argument, and return it."""
        values.append(-1)
        return values

    def array(self, number: int) -> np.ndarray[Any, Any]:
        """Return an array that is worth shared memory."""
        return np.full((200, 100), number, np.float32)

    def pass_gate(self, path: str, seconds: float) -> bool:
        """Wait for a file; return whether it was there in time."""
        return _wait_for(lambda: os.path.exists(path), seconds)

    def meet(self, folder: str, count: int, seconds: float) -> bool:
        """Wait until `count` tasks are here at the same time; return whether they came in time."""
        with open(os.path.join(folder, uuid.uuid4().hex), "w"):
            pass
        return _wait_for(lambda: len(os.listdir(folder)) >= count, seconds)


def _wait_for(condition: Callable[[], bool], seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(_POLL_SECONDS)
    return True


class ProbePool:
    """A pool of the executor under test, with a probe part; closed at the end of the `with` block.

    Attributes:
        pool: The pool.
        patience: The seconds for which a task waits for others, or a check for what must happen:
            less than those after which a task without a result fails the check.
    """

    def __init__(self, subject: Subject, executor: Executor | None = None):
        self._seconds = subject.case.check_timeout / 3
        self.patience = self._seconds / 2
        job = TaskDispatcher({PART: ProbePart()}, (), current_policy())
        executor = subject.fresh() if executor is None else executor
        self._wanted = executor.capacity
        self.pool: TaskPool = executor.open(job, name_owner=lambda value: None)

    def __enter__(self) -> ProbePool:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        close_reporting(self.pool, error)

    def submit(
        self, method: str, *arguments: Any, part: int = PART, affinity: int | None = None
    ) -> int:
        """Submit a call of a method of a part; return its ticket."""
        ticket = self.pool.submit((part, method, *arguments), affinity=affinity)
        assert isinstance(ticket, int), f"submit() returned {ticket!r}, expected a number."
        return ticket

    def wait(self, ticket: int) -> None:
        """Wait until a ticket is ready; an executor that loses it fails."""
        deadline = time.monotonic() + self._seconds
        while time.monotonic() < deadline:
            ready = self.pool.wait([ticket], timeout=max(0.0, deadline - time.monotonic()))
            assert ready <= {ticket}, f"wait([{ticket}]) returned {ready!r}."
            if ready:
                return
        raise AssertionError(
            f"a task has no result {self._seconds:g} seconds after it was submitted: it was neither"
            " computed, nor reported as lost by TaskLost."
        )

    def take(self, ticket: int) -> Any:
        """Return the result of a ticket."""
        self.wait(ticket)
        try:
            value, report = self.pool.result(ticket)
        except TaskLost as loss:
            raise AssertionError(f"a task was reported as lost without a fault: {loss}") from loss
        assert report is None, f"the task failed: {report}"
        return value

    def settled_capacity(self) -> int:
        """Return the capacity once two workers have started, or the second is long in coming."""
        deadline = time.monotonic() + self.patience
        while True:
            self.take(self.submit("echo", 0))
            count = self.pool.capacity
            if count >= min(2, self._wanted) or time.monotonic() > deadline:
                return count
            time.sleep(_POLL_SECONDS)

    def take_all(self, tickets: Iterable[int]) -> list[Any]:
        """Return the results of tickets."""
        return [self.take(ticket) for ticket in tickets]


def close_reporting(closed: Any, error: BaseException | None) -> None:
    """Close a pool, or what uses it; what it raises follows from `check_close_is_final`.

    Args:
        closed: The object to close.
        error: The error that ends the check, which is not replaced by the one of `close`.
    """
    try:
        closed.close()
    except Exception as raised:
        if error is None:
            raise ConsequenceError(
                f"close() of the pool raised {raised!r}.", cause="check_close_is_final"
            ) from raised


@contextlib.contextmanager
def closing(closed: _T) -> Iterator[_T]:
    """Close an object at the end of the block like `close_reporting`."""
    try:
        yield closed
    except BaseException as error:
        close_reporting(closed, error)
        raise
    close_reporting(closed, None)


def held_resources() -> dict[str, int]:
    """Count the threads, open files and child processes of this process.

    The process that is kept to fork the workers of the next pool is ended before.
    """
    end_idle_template()
    counts = {"threads": threading.active_count()}
    if os.path.isdir("/proc/self/fd"):
        counts["files"] = len(os.listdir("/proc/self/fd"))
        counts["processes"] = sum(_children(task) for task in os.listdir("/proc/self/task"))
    return counts


def _children(task: str) -> int:
    try:
        with open(f"/proc/self/task/{task}/children") as file:
            return len(file.read().split())
    except OSError:  # The thread has ended, or the kernel does not list children.
        return 0
