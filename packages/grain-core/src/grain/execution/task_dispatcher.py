"""What a worker process is given when it starts. It need not load what only the asking side uses."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from grain.execution import shared_sources
from grain.execution.processes.error_report import report

# Set in worker processes: there, nothing starts processes of its own.
_in_worker = False


def in_worker() -> bool:
    """Whether this is a worker process."""
    return _in_worker


class TaskDispatcher:
    """What every worker is given when it starts: the parts of the pipeline it may be asked for.

    A part is any object with methods that can be asked for by name. Where one of them returns an
    object with an `error`, that error travels beside it.
    """

    def __init__(self, parts: dict[int, Any], shared: Sequence[Any]):
        self._parts = parts
        self._shared = shared
        self._where = ""

    def start(self, worker_index: int, worker_count: int) -> Callable[[Any], Any]:
        """Called once in each worker."""
        global _in_worker
        _in_worker = True
        self._where = f"worker {worker_index} of {worker_count}"
        return self._do

    def _do(self, task: tuple[Any, ...]) -> Any:
        number, name, *arguments = task
        if name == "define":
            self._parts[number] = shared_sources.loads(arguments[0], self._shared)
            return None
        if name == "release":
            part = self._parts.pop(number, None)
            if hasattr(part, "close"):
                part.close()
            return None
        made = getattr(self._parts[number], name)(*arguments)
        error = getattr(made, "error", None)
        if error is None:
            return made, None
        made.error = None
        return made, report(error, where=self._where)
