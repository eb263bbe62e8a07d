"""Tells datasets, which know neither threads nor processes, who computes for them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from grain._lazy import LazyModule
from grain.dataset.context import BlockReader, ProcessPrefetcher, install_executors
from grain.options import ReadOptions

# Many programs start no process, and few read datasets by turns.
if TYPE_CHECKING:
    from grain.execution import interleave_opener, prefetch, threads
else:
    interleave_opener = LazyModule("grain.execution.interleave_opener")
    prefetch = LazyModule("grain.execution.prefetch")
    threads = LazyModule("grain.execution.threads")


class _Executors:
    def reader(self, dataset: Any, start: int, stop: int, options: ReadOptions) -> BlockReader:
        return threads.make_reader(dataset, start, stop, options)

    def process_prefetcher(self) -> ProcessPrefetcher | None:
        return prefetch.prefetcher()

    def ahead(self) -> Any:
        return interleave_opener.ThreadsAhead()


def install() -> None:
    """Called once, when the library is imported."""
    install_executors(_Executors())
