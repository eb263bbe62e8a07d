"""`multithread_prefetch`: a pipeline computed ahead in threads.

Threads compute blocks of what a worker process would compute by itself: a map dataset and the stages
above it. Operations that depend on order run in one thread above them.
"""

from __future__ import annotations

import functools
from typing import Any, TypeVar

from grain.dataset.base import DatasetIterator, IterDataset, MapDataset, TransparentIterDataset
from grain.dataset.interleave.interleave import InterleaveIterDataset
from grain.dataset.node import ExecutionTrait
from grain.dataset.stages import STAGES, StageIterDataset
from grain.dataset.to_iter import PrefetchIterDataset
from grain.dataset.validation import checked_iter_parent
from grain.execution.fused_iterator import FusedIterator
from grain.execution.fused_stage import FusedStage
from grain.execution.plan import FusedPlan, Plan, plan_node
from grain.execution.thread_prefetch import ThreadPrefetchDatasetIterator
from grain.execution.thread_session import ThreadSession
from grain.options import ReadOptions, checked_int

T = TypeVar("T")


def multithread_prefetch(
    ds: IterDataset[T], num_threads: int, buffer_size: int, sequential_slice: bool = False
) -> IterDataset[T]:
    """Return a dataset that is prefetched in threads; their number never changes the stream.

    Args:
        ds: The dataset to read.
        num_threads: Threads that compute map datasets and the functions, filters and batches directly
            above them, as far as threads pay off; 0 disables prefetching. One more thread runs
            operations that depend on order.
        buffer_size: Elements that each thread may compute ahead.
        sequential_slice: Accepted for compatibility; nothing is sliced by thread.

    >>> import grain
    >>> ds = grain.MapDataset.range(5).to_iter_dataset().batch(2)
    >>> list(multithread_prefetch(ds, num_threads=2, buffer_size=1))
    [array([0, 1]), array([2, 3]), array([4])]
    """
    del sequential_slice
    threads = checked_int("num_threads", num_threads, least=0)
    size = checked_int("buffer_size", buffer_size, least=0)
    ds = checked_iter_parent("multithread_prefetch", ds)
    if not threads:
        return ds
    ahead = MultithreadPrefetchIterDataset(ds, threads, size) if size else ds
    # google/grain's state is that of an interleave of one dataset.
    return InterleaveIterDataset([ahead], cycle_length=1)


class MultithreadPrefetchIterDataset(TransparentIterDataset[T]):
    """The parent's elements, computed ahead in threads; not where worker processes compute the parent."""

    def __init__(self, parent: IterDataset[T], num_threads: int, buffer_size: int):
        super().__init__(parent)
        self._num_threads = num_threads
        self._buffer_size = buffer_size

    execution_trait = ExecutionTrait.TRANSPARENT

    def __iter__(self) -> DatasetIterator[T]:
        iterator = self._open(self._parent)
        if isinstance(iterator, FusedIterator):
            return iterator
        return ThreadPrefetchDatasetIterator(iterator, self._num_threads * self._buffer_size)

    def __str__(self) -> str:
        return (
            f"MultithreadPrefetchIterDataset(num_threads={self._num_threads}, "
            f"buffer_size={self._buffer_size})"
        )

    def _open(self, dataset: IterDataset[Any] | MapDataset[Any]) -> DatasetIterator[Any]:
        """Return the iterator of a node, with threads for the map datasets below it."""
        if isinstance(dataset, MapDataset):
            dataset = dataset.to_iter_dataset()
        stages: list[StageIterDataset[Any]] = []
        base: Any = dataset
        while base.execution_trait in STAGES:
            stages.insert(0, base)
            base = base.parents[0]
        if base.execution_trait is ExecutionTrait.BOUNDARY:
            fused = _lowest(plan_node(dataset))
            iterator = self._open_fused(fused, self._session(fused))
            stages = stages[len(fused.stages) :]
        elif _opens_parents(base):
            iterator = base.make_iterator(base.make_parent_iterators(self._open))
        else:
            iterator = base.__iter__()
        for stage in stages:
            iterator = stage.make_iterator([iterator])
        return iterator

    def _session(self, fused: FusedPlan) -> ThreadSession:
        """Return as many threads as this node or the boundary allows, and the buffers of both."""
        threads, further = self._num_threads, 0
        options: ReadOptions = fused.boundary.read_options
        if options.num_threads and options.prefetch_buffer_size:
            threads = max(threads, options.num_threads)
            group_size = FusedStage(fused.boundary, fused.stages).group_size
            further = -(-options.prefetch_buffer_size // group_size)
        own = -(-self._num_threads * self._buffer_size // threads)
        return ThreadSession(threads, own, further)

    def _open_fused(self, fused: FusedPlan, session: ThreadSession) -> DatasetIterator[Any]:
        inline = ReadOptions(num_threads=0, prefetch_buffer_size=0)
        boundary: PrefetchIterDataset[Any] = PrefetchIterDataset(
            fused.boundary.parents[0], inline, fused.boundary.allow_nones
        )
        return FusedIterator(
            FusedStage(boundary, fused.stages),
            session,
            fallback=functools.partial(self._open_uncounted, fused, session),
        )

    def _open_uncounted(self, fused: FusedPlan, session: ThreadSession) -> DatasetIterator[Any]:
        """Return the iterator to use when elements are missing although a stage counts them."""
        lower = _lowest(fused.without_counting())
        iterator = self._open_fused(lower, session)
        for stage in fused.stages[len(lower.stages) :]:
            iterator = stage.make_iterator([iterator])
        return iterator


def _lowest(plan: Plan) -> FusedPlan:
    """Return the fused part at the bottom of a plan of one map dataset."""
    while not isinstance(plan, FusedPlan):
        (plan,) = plan.parents
    return plan


def _opens_parents(node: IterDataset[Any]) -> bool:
    """Return whether the library opens the parents of a node, and it opens no further datasets."""
    opened = type(node).__iter__ is TransparentIterDataset.__iter__
    return opened and node.execution_trait is not ExecutionTrait.INTERLEAVED
