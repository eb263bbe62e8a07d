"""Installation of the executors that datasets, which import neither threads nor processes, read through."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from grain._lazy import LazyModule
from grain.dataset.entry_points import install_executors

# Many programs start no process, and few interleave datasets.
if TYPE_CHECKING:
    from grain import _config
    from grain.dataset.entry_points import BlockReader, ProcessPrefetcher
    from grain.execution import adaptive_reader, interleave_opener, process_prefetch
    from grain.execution.processes import bootstrap_guard, template_client
    from grain.options import MultiprocessingOptions, ReadOptions
else:
    interleave_opener = LazyModule("grain.execution.interleave_opener")
    process_prefetch = LazyModule("grain.execution.process_prefetch")
    adaptive_reader = LazyModule("grain.execution.adaptive_reader")
    _config = LazyModule("grain._config")
    bootstrap_guard = LazyModule("grain.execution.processes.bootstrap_guard")
    template_client = LazyModule("grain.execution.processes.template_client")


class _Executors:
    def reader(self, dataset: Any, start: int, stop: int, options: ReadOptions) -> BlockReader:
        return adaptive_reader.make_reader(dataset, start, stop, options)

    def process_prefetcher(self, options: MultiprocessingOptions) -> ProcessPrefetcher | None:
        if bootstrap_guard.in_worker():
            return None
        chosen = _config.config.executor if options.executor is None else options.executor
        if chosen == "processes" and _gil_enabled():
            bootstrap_guard.require_started()
            # The interpreter of the template starts while this process imports, plans and pickles.
            template_client.start_early()
        return process_prefetch.prefetch_in_processes

    def ahead(self) -> Any:
        return interleave_opener.ThreadsAhead()


def _gil_enabled() -> bool:
    """Return whether threads of this interpreter take turns; otherwise workers may be threads."""
    enabled: bool = getattr(sys, "_is_gil_enabled", lambda: True)()
    return enabled


def install() -> None:
    """Install the executors; called once, when the library is imported."""
    install_executors(_Executors())
