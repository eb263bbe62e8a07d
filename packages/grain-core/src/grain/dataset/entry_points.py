"""The entry points through which datasets reach executors, pages and telemetry.

Datasets import nothing of those layers, which install their entry points here when the library is imported.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

    from grain.options import MultiprocessingOptions, ReadOptions

    ProcessPrefetcher = Callable[[Any, MultiprocessingOptions, Any], Any]


class BlockReader(Protocol):
    """A reader of a map dataset in order, with or without read-ahead."""

    def read(self, limit: int) -> list[Any]:
        """Return the next elements, `limit` at most; empty only at the end."""

    def seek(self, index: int) -> None:
        """Continue reading at `index`."""

    def start(self) -> None:
        """Start reading ahead, if the reader does so."""

    def close(self) -> None:
        """Release threads and memory."""


class Executors(Protocol):
    """The entry points of the execution layer, each imported at first use."""

    def reader(self, dataset: Any, start: int, stop: int, options: ReadOptions) -> BlockReader:
        """Return a reader of `dataset[start:stop]`, a map dataset."""

    def process_prefetcher(self, options: MultiprocessingOptions) -> ProcessPrefetcher | None:
        """Return the function that computes in worker processes; None inside a worker process.

        What takes long and depends on the options only is started at once.
        """

    def ahead(self) -> Any:
        """Return the opener of interleaved datasets, which reads ahead in threads."""


_executors: list[Executors] = []


def install_executors(found: Executors) -> None:
    """Install the entry points of this process; called once, when the library is imported."""
    _executors[:] = [found]


def executors() -> Executors:
    """Return the entry points of this process."""
    return _executors[0]


class Presenter(Protocol):
    """The entry points of pages, which are imported when one is first shown."""

    def notebook_view(self, dataset: Any) -> str | None:
        """Return the graph of a dataset as HTML; None if it cannot be drawn."""

    def visualize(self, dataset: Any, path: Any = None, **options: Any) -> Any:
        """Return the page of a dataset."""


_presenter: list[Presenter] = []


def install_presenter(found: Presenter) -> None:
    """Install the entry points of pages; called once, when the library is imported."""
    _presenter[:] = [found]


def presenter() -> Presenter:
    """Return the entry points of pages."""
    return _presenter[0]


class Telemetry(Protocol):
    """The entry points of telemetry, which is imported when it is first used."""

    def enable(self) -> None:
        """Observe the iterators of datasets that request it, from now on."""

    def statistics(self, iterator: Any) -> Any:
        """Return the statistics of an observed iterator; raise an error for another one."""


_observation: list[Telemetry] = []


def install_observation(found: Telemetry) -> None:
    """Install the entry points of telemetry; called once, when the library is imported."""
    _observation[:] = [found]


def observation() -> Telemetry:
    """Return the entry points of telemetry."""
    return _observation[0]
