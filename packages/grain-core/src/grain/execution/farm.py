"""Gives worker processes the parts of a pipeline that they can compute by themselves."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from grain.dataset.base import DatasetIterator, IterDataset
from grain.dataset.chunk import Chunk
from grain.dataset.context import IterationContext, iteration_context
from grain.dataset.iterator import ChunkIterator
from grain.dataset.node import ExecutionTrait
from grain.dataset.stages import STAGES, StageIterDataset
from grain.dataset.to_iter import PrefetchIterDataset
from grain.execution.fused_iterator import FusedIterator
from grain.execution.fused_stage import FusedStage
from grain.execution.offload import OffloadIterator, is_function
from grain.execution.remote_stream import StreamIterator
from grain.execution.shared_sources import shared_sources
from grain.execution.worker_session import WorkerSession
from grain.execution.worker_states import as_one_position

T = TypeVar("T")

_DIVISIBLE = (ExecutionTrait.BOUNDARY, ExecutionTrait.INTERLEAVED)


class ProcessExecutor:
    """Makes iterators whose elements worker processes compute."""

    def __init__(self, workers: WorkerSession, buffer_size: int):
        self.workers = workers
        self._buffer_size = buffer_size
        self._next_stream = 0

    def iterate(self, dataset: Any) -> DatasetIterator[Any] | None:
        """The iterator of a dataset whose topmost operations are functions of stretches."""
        stages: list[StageIterDataset[Any]] = []
        base = dataset
        while base.execution_trait in STAGES:
            stages.insert(0, base)
            base = base._parent
        if base.execution_trait is ExecutionTrait.BOUNDARY:
            fused = _fusible(base, stages)
            return self._over(self._fused(base, stages[:fused]), stages[fused:])
        if not stages:
            return None
        return self._over(base.__iter__(), stages)

    def stream(self, dataset: IterDataset[Any]) -> DatasetIterator[Any]:
        """The iterator of a dataset that one worker reads from beginning to end."""
        worker = self._next_stream % self.workers.count
        self._next_stream += 1
        return StreamIterator(dataset, self.workers, worker, self._buffer_size)

    def _fused(
        self, boundary: PrefetchIterDataset[Any], stages: Sequence[StageIterDataset[Any]]
    ) -> DatasetIterator[Any]:
        """The iterator of a chain."""

        def without_counting() -> DatasetIterator[Any]:
            first = next(number for number, stage in enumerate(stages) if stage.counts_elements)
            return self._over(self._fused(boundary, stages[:first]), stages[first:])

        chain = FusedStage(boundary, stages)
        return FusedIterator(chain, self.workers, self._buffer_size, without_counting)

    def _over(
        self, iterator: DatasetIterator[Any], stages: Sequence[StageIterDataset[Any]]
    ) -> DatasetIterator[Any]:
        """Puts operations on an iterator; functions among them may be computed by workers."""
        rest = list(stages)
        while rest:
            functions = list(itertools.takewhile(is_function, rest))
            del rest[: len(functions)]
            if functions:
                iterator = OffloadIterator(iterator, functions, self.workers, self._buffer_size)
            if rest:
                iterator = rest.pop(0).make_iterator([iterator])
        return iterator


def _fusible(boundary: PrefetchIterDataset[Any], stages: Sequence[StageIterDataset[Any]]) -> int:
    """How many of the operations a worker can compute for a block by itself.

    One that counts elements needs all of them to be there: none may be dropped below it.
    """
    dense = boundary.allow_nones or not boundary.parents[0].is_sparse
    for number, stage in enumerate(stages):
        if stage.counts_elements and not dense:
            return number
        if stage.drops_elements:
            if any(lower.counts_elements for lower in stages[:number]):
                return number
            dense = False
    return len(stages)


class ProcessPrefetchIterator(ChunkIterator[T]):
    """Passes on what worker processes compute, and ends them when it is closed or dropped."""

    def __init__(self, parent: DatasetIterator[T], workers: WorkerSession):
        super().__init__(parent)
        self._workers = workers

    def __str__(self) -> str:
        return f"ProcessPrefetchIterator(num_workers={self._workers.count})"

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
        self._parent.set_state(as_one_position(state, self._parent.get_state))

    def close(self) -> None:
        """Ends the workers, and with them what they were computing."""
        self._workers.close()
        super().close()


def prefetch_in_processes(
    dataset: IterDataset[T],
    context: IterationContext,
    count: int,
    buffer_size: int,
    init: Callable[[int, int], None] | None,
) -> DatasetIterator[T]:
    """The iterator of a dataset, with the parts that workers can compute given to them."""
    workers = WorkerSession(count, init, shared_sources(dataset))
    executor = ProcessExecutor(workers, buffer_size)
    if _has_blocks(dataset):
        with iteration_context(context._replace(executor=executor)):
            iterator = dataset.__iter__()
    else:
        iterator = executor.stream(dataset)
    return ProcessPrefetchIterator(iterator, workers)


def _has_blocks(dataset: Any) -> bool:
    """Whether a dataset reads from a map dataset, or from several streams that can be divided."""
    if getattr(dataset, "execution_trait", None) in _DIVISIBLE:
        return True
    return any(_has_blocks(parent) for parent in getattr(dataset, "parents", ()))
