"""Tells datasets, which know neither threads nor processes, who computes for them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from grain.dataset.context import ProcessPrefetcher, ReaderMaker, install_executors
from grain.lazily import LazyModule

# Many programs start no process, and few read datasets by turns; a worker needs none of these.
if TYPE_CHECKING:
    from grain.execution import opening, prefetch, threads
else:
    opening = LazyModule("grain.execution.opening")
    prefetch = LazyModule("grain.execution.prefetch")
    threads = LazyModule("grain.execution.threads")


class _Executors:
    def reader_maker(self) -> ReaderMaker:
        return threads.ThreadReaders()

    def process_prefetcher(self) -> ProcessPrefetcher | None:
        return prefetch.prefetcher()

    def ahead(self) -> Any:
        return opening.ThreadsAhead()


def install() -> None:
    """Called once, when the library is imported."""
    install_executors(_Executors())
