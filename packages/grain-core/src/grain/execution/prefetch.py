"""`mp_prefetch` for real: when worker processes are used, and how many."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from grain.dataset.base import DatasetIterator, IterDataset
from grain.dataset.context import IterationContext
from grain.execution.farm import prefetch_in_processes
from grain.execution.task_dispatcher import in_worker
from grain.execution.worker_session import sensible_worker_count, threads_are_enough
from grain.options import MultiprocessingOptions


def prefetcher() -> Callable[..., DatasetIterator[Any]] | None:
    """The function that makes iterators over worker processes, or None where there are to be none."""
    if in_worker():
        return None
    return _prefetch


def _prefetch(
    dataset: IterDataset[Any],
    context: IterationContext,
    options: MultiprocessingOptions,
    init: Callable[[int, int], None] | None,
) -> DatasetIterator[Any]:
    if options.num_workers is None and threads_are_enough():
        return dataset.__iter__()
    count = sensible_worker_count() if options.num_workers is None else options.num_workers
    return prefetch_in_processes(dataset, context, count, options.per_worker_buffer_size, init)
