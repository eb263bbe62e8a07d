"""Computation of `mp_prefetch`: select an executor, plan the pipeline, open a session, build the iterator."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, TypeVar

from grain._config import config
from grain.dataset.base import DatasetIterator, IterDataset
from grain.dataset.chunk import Chunk
from grain.dataset.context import current_context
from grain.dataset.iterator import ChunkIterator
from grain.execution.build import build
from grain.execution.executor_selection import select_executor
from grain.execution.plan import plan
from grain.execution.shared_sources import shared_sources
from grain.execution.worker_session import WorkerSession
from grain.execution.worker_states import merge_worker_states
from grain.options import MultiprocessingOptions

T = TypeVar("T")


def prefetch_in_processes(
    dataset: IterDataset[T],
    options: MultiprocessingOptions,
    worker_init_fn: Callable[[int, int], None] | None,
) -> DatasetIterator[T]:
    """Return the iterator of a dataset, computed by workers as far as its plan allows."""
    chosen = config.executor if options.executor is None else options.executor
    if chosen == "processes" and options.num_workers is None and _threads_run_in_parallel():
        return dataset.__iter__()
    executor, worker_init_fn = select_executor(options, worker_init_fn)
    observation = current_context().observation
    open_session = WorkerSession if observation is None else observation.open_session
    session = open_session(
        executor,
        options.per_worker_buffer_size,
        shared_sources(dataset),
        worker_init_fn=worker_init_fn,
    )
    return ProcessPrefetchIterator(build(plan(dataset), session), session)


def _threads_run_in_parallel() -> bool:
    """Return whether the interpreter runs without its global lock, so that processes bring nothing."""
    enabled: Callable[[], bool] | None = getattr(sys, "_is_gil_enabled", None)
    return enabled is not None and not enabled()


class ProcessPrefetchIterator(ChunkIterator[T]):
    """Top of a built plan: forwards to it, and ends the workers when it is closed or dropped."""

    def __init__(self, parent: DatasetIterator[T], session: WorkerSession):
        super().__init__(parent)
        self._session = session

    @property
    def session(self) -> WorkerSession:
        """The workers, and counts of what happened to them."""
        return self._session

    def __str__(self) -> str:
        return f"ProcessPrefetchIterator(num_workers={self._session.capacity})"

    def _pull(self, limit: int) -> Chunk:
        return self._parent.next_chunk(limit)

    def state_function(self) -> Callable[[], Any] | None:
        if (
            self._rollback is None
            and not self._chunk.elements
            and isinstance(self._parent, ChunkIterator)
        ):
            return self._parent.state_function()
        return super().state_function()

    def index_from_state(self, state: Any) -> int:
        return self._parent.index_from_state(state)

    def state_from_index(self, index: int) -> Any:
        return self._parent.state_from_index(index)

    def _live_state(self) -> Any:
        return self._parent.get_state()

    def _restore(self, state: Any) -> None:
        self._parent.restore_as_parent(merge_worker_states(state, self._parent.get_state))

    def close(self) -> None:
        """End the workers and discard the elements in flight."""
        self._keep_state()
        self._session.close()
        super().close()
