"""Prefetching in workers: processes, threads, or those of another executor."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from grain.dataset.entry_points import executors, observation
from grain.dataset.iter_dataset import IterDataset, TransparentIterDataset
from grain.dataset.iterator import DatasetIterator
from grain.dataset.node import ExecutionTrait, written_form
from grain.options import MultiprocessingOptions, ObservationOptions

T = TypeVar("T")


def as_options(
    options: MultiprocessingOptions | None,
    num_workers: int | None,
    per_worker_buffer_size: int | None,
) -> MultiprocessingOptions:
    """Return the options that are given one by one."""
    if options is not None:
        raise TypeError(
            f"mp_prefetch got options={options!r} and also num_workers={num_workers!r}, "
            f"per_worker_buffer_size={per_worker_buffer_size!r}. Give either: "
            "mp_prefetch(num_workers=2), or mp_prefetch(grain.MultiprocessingOptions(num_workers=2))."
        )
    size = 1 if per_worker_buffer_size is None else per_worker_buffer_size
    return MultiprocessingOptions(num_workers=num_workers, per_worker_buffer_size=size)


def mp_prefetch(
    dataset: IterDataset[T],
    options: MultiprocessingOptions | None,
    worker_init_fn: Callable[[int, int], None] | None,
    sequential_slice: bool,
) -> IterDataset[T]:
    """Return a dataset whose elements workers compute ahead."""
    if options is None:
        options = MultiprocessingOptions(num_workers=None)
    if not isinstance(options, MultiprocessingOptions):
        raise TypeError(
            f"options must be a grain.MultiprocessingOptions, got {options!r} of type "
            f"{type(options).__name__}. For two workers write mp_prefetch(num_workers=2)."
        )
    if worker_init_fn is not None and not callable(worker_init_fn):
        raise TypeError(
            "worker_init_fn must be a function of (worker index, worker count), got "
            f"{worker_init_fn!r}."
        )
    del sequential_slice
    if options.num_workers == 0:
        return dataset.observe(trace=True) if options.enable_profiling else dataset
    return ProcessPrefetchIterDataset(dataset, options, worker_init_fn)


class ProcessPrefetchIterDataset(TransparentIterDataset[T]):
    """The parent's elements, computed by workers."""

    def __init__(
        self,
        parent: IterDataset[T],
        options: MultiprocessingOptions,
        worker_init_fn: Callable[[int, int], None] | None = None,
    ):
        super().__init__(parent)
        self._options = options
        self.worker_init_fn = worker_init_fn
        if options.enable_profiling:
            self.observation_options = ObservationOptions(trace=True)
            observation().enable()

    execution_trait = ExecutionTrait.TRANSPARENT

    def __iter__(self) -> DatasetIterator[T]:
        prefetcher = executors().process_prefetcher(self._options)
        iterator: DatasetIterator[T]
        if prefetcher is None:
            iterator = self._parent.__iter__()
        else:
            iterator = prefetcher(self._parent, self._options, self.worker_init_fn)
        return iterator

    def written_call(self) -> str:
        size = self._options.per_worker_buffer_size
        return written_form.call(
            "mp_prefetch",
            num_workers=self._options.num_workers,
            per_worker_buffer_size=None if size == 1 else size,
            worker_init_fn=self.worker_init_fn,
        )

    def __str__(self) -> str:
        return f"ProcessPrefetchIterDataset(options={self._options})"
