"""The job of a worker: pipeline parts, and dispatch of the calls on them.

Worker processes import this module; it loads nothing that only the consuming process needs.
"""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable, Sequence
from typing import Any

from grain._policy import Policy, install_policy
from grain.execution import shared_sources
from grain.execution.processes.bootstrap_guard import in_worker
from grain.execution.processes.error_report import report


class TaskDispatcher:
    """The pipeline parts of all workers, by number.

    Args:
        parts: Parts that exist from the start.
        shared: Objects that parts defined later may refer to.
        policy: Tuning constants of worker processes.
        worker_init_fn: Called first in each worker, with its index and the number of workers.
    """

    def __init__(
        self,
        parts: dict[int, Any],
        shared: Sequence[Any],
        policy: Policy,
        worker_init_fn: Callable[[int, int], None] | None = None,
    ):
        self._parts = parts
        self._shared = shared
        self._policy = policy
        self._worker_init_fn = worker_init_fn

    def start(self, worker_index: int, worker_count: int) -> WorkerParts:
        """Prepare a worker; return the function that computes a task."""
        parts = self._parts
        if in_worker():
            install_policy(self._policy)
        else:  # Workers of one process share datasets, and nothing that changes.
            parts = {number: copy.copy(part) for number, part in parts.items()}
        if self._worker_init_fn is not None:
            self._worker_init_fn(worker_index, worker_count)
        return WorkerParts(parts, self._shared, f"worker {worker_index} of {worker_count}")


class WorkerParts:
    """The pipeline parts of one worker; computes tasks.

    A task is (number, method, *arguments). Besides the methods of the part there are `define`, which adds
    a part, and `release`, which removes it. The error of a result that has an `error` travels beside the
    result, as a report. The error of a definition is raised by the calls on the part.
    """

    def __init__(self, parts: dict[int, Any], shared: Sequence[Any], where: str):
        self._parts = parts
        self._shared = shared
        self._where = where

    def __call__(self, task: tuple[Any, ...]) -> Any:
        """Compute a task."""
        number, name, *arguments = task
        if name == "define":
            try:
                self._parts[number] = shared_sources.loads(arguments[0], self._shared)
            except Exception as error:
                self._parts[number] = _Undefined(error)
            return None
        if name == "release":
            part = self._parts.pop(number, None)
            if hasattr(part, "close"):
                part.close()
            return None
        result = getattr(self._parts[number], name)(*arguments)
        failure = getattr(result, "error", None)
        if failure is None:
            return result, None
        result.error = None
        return result, report(failure, where=self._where)

    def close(self) -> None:
        """Release all parts, in a worker that does not end with its process."""
        while self._parts:
            with contextlib.suppress(Exception):
                self((next(iter(self._parts)), "release"))


class _Undefined:
    """Stands for a part that could not be loaded."""

    def __init__(self, error: Exception):
        self._error = error

    def close(self) -> None:
        """Release nothing."""

    def __getattr__(self, name: str) -> Any:
        raise self._error
