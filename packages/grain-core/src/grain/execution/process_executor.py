"""The process executor: tasks are computed by worker processes on this machine."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from grain._config import config
from grain.execution.executor import Job
from grain.execution.processes.pool import WorkerPool


class ProcessExecutor:
    """Executor of tasks in local worker processes.

    Args:
        capacity: Number of workers.
        worker_init_fn: Called in each worker with its index and the number of workers, before the job
            is loaded.
        max_worker_restarts: How often a lost worker is replaced before the loss is an error, for each
            worker and within a window of time; None takes the setting of `grain.config`.
        task_timeout: Seconds after which a worker that computes one task is replaced; None takes the
            setting.
        worker_memory_limit: Bytes of memory of a worker above which it is replaced between two tasks; None
            takes the setting.
    """

    def __init__(
        self,
        capacity: int,
        worker_init_fn: Callable[[int, int], None] | None = None,
        *,
        max_worker_restarts: int | None = None,
        task_timeout: float | None = None,
        worker_memory_limit: int | None = None,
    ):
        self.capacity = capacity
        self._worker_init_fn = worker_init_fn
        self._limits: dict[str, Any] = {
            "max_worker_restarts": max_worker_restarts,
            "task_timeout": task_timeout,
            "worker_memory_limit": worker_memory_limit,
        }

    def open(self, job: Job, *, name_owner: Callable[[Any], str | None]) -> WorkerPool:
        """Start worker processes."""
        limits = {
            name: config.get_or_default(name) if value is None else value
            for name, value in self._limits.items()
        }
        return WorkerPool(
            job,
            num_workers=self.capacity,
            worker_init_fn=self._worker_init_fn,
            name_owner=name_owner,
            max_restarts=limits["max_worker_restarts"],
            task_timeout=limits["task_timeout"],
            memory_limit=limits["worker_memory_limit"],
        )
