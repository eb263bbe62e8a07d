"""The job of a worker process: pipeline parts, and dispatch of the calls on them.

Workers import this module; it loads nothing that only the consuming process needs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from grain._policy import Policy, install_policy
from grain.execution import shared_sources
from grain.execution.processes.bootstrap_guard import in_worker
from grain.execution.processes.error_report import report


class TaskDispatcher:
    """The pipeline parts of a worker, by number.

    A task is (number, method, *arguments). Besides the methods of the part there are `define`, which adds
    a part, and `release`, which removes it. The error of a result that has an `error` travels beside the
    result, as a report.

    Args:
        parts: Parts that exist from the start.
        shared: Objects that parts defined later may refer to.
        policy: Tuning constants of the worker.
    """

    def __init__(self, parts: dict[int, Any], shared: Sequence[Any], policy: Policy):
        self._parts = parts
        self._shared = shared
        self._policy = policy
        self._where = ""

    def start(self, worker_index: int, worker_count: int) -> Callable[[Any], Any]:
        """Prepare the worker; return the function that computes a task."""
        if in_worker():
            install_policy(self._policy)
        self._where = f"worker {worker_index} of {worker_count}"
        return self._dispatch

    def _dispatch(self, task: tuple[Any, ...]) -> Any:
        number, name, *arguments = task
        if name == "define":
            self._parts[number] = shared_sources.loads(arguments[0], self._shared)
            return None
        if name == "release":
            part = self._parts.pop(number, None)
            if hasattr(part, "close"):
                part.close()
            return None
        result = getattr(self._parts[number], name)(*arguments)
        error = getattr(result, "error", None)
        if error is None:
            return result, None
        result.error = None
        return result, report(error, where=self._where)
