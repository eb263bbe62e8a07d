"""The process executor: tasks are computed by worker processes on this machine."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from grain.execution.executor import Job
from grain.execution.processes.pool import WorkerPool


class ProcessExecutor:
    """Executor of tasks in local worker processes.

    Args:
        capacity: Number of workers.
        worker_init_fn: Called in each worker with its index and the number of workers, before the job
            is loaded.
        max_worker_restarts: How often a lost worker is replaced before the loss is an error, for each
            worker and within a window of time.
        task_timeout: Seconds after which a worker that computes one task is replaced; None for no limit.
        worker_memory_limit: Bytes of memory of a worker above which it is replaced between two tasks; None
            for no limit.
    """

    def __init__(
        self,
        capacity: int,
        worker_init_fn: Callable[[int, int], None] | None = None,
        *,
        max_worker_restarts: int = 0,
        task_timeout: float | None = None,
        worker_memory_limit: int | None = None,
    ):
        self.capacity = capacity
        self._worker_init_fn = worker_init_fn
        self._max_worker_restarts = max_worker_restarts
        self._task_timeout = task_timeout
        self._worker_memory_limit = worker_memory_limit

    def open(self, job: Job, *, name_owner: Callable[[Any], str | None]) -> WorkerPool:
        """Start worker processes."""
        return WorkerPool(
            job,
            num_workers=self.capacity,
            worker_init_fn=self._worker_init_fn,
            name_owner=name_owner,
            max_restarts=self._max_worker_restarts,
            task_timeout=self._task_timeout,
            memory_limit=self._worker_memory_limit,
        )
