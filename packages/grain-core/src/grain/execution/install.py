"""Installation of the executors that datasets, which import neither threads nor processes, read through."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from grain._lazy import LazyModule
from grain.dataset.context import BlockReader, ProcessPrefetcher, install_executors
from grain.options import ReadOptions

# Many programs start no process, and few interleave datasets.
if TYPE_CHECKING:
    from grain.execution import adaptive_reader, interleave_opener, process_prefetch
else:
    interleave_opener = LazyModule("grain.execution.interleave_opener")
    process_prefetch = LazyModule("grain.execution.process_prefetch")
    adaptive_reader = LazyModule("grain.execution.adaptive_reader")


class _Executors:
    def reader(self, dataset: Any, start: int, stop: int, options: ReadOptions) -> BlockReader:
        return adaptive_reader.make_reader(dataset, start, stop, options)

    def process_prefetcher(self) -> ProcessPrefetcher | None:
        return process_prefetch.prefetcher()

    def ahead(self) -> Any:
        return interleave_opener.ThreadsAhead()


def install() -> None:
    """Install the executors; called once, when the library is imported."""
    install_executors(_Executors())
