"""Options in force while iterators are made, and the hooks through which datasets reach executors.

Datasets import nothing of the execution layer: it installs its entry points here when the library is
imported.
"""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, Protocol

from grain.options import DatasetOptions, MultiprocessingOptions, ReadOptions


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


_NO_OPTIONS = DatasetOptions()


class IterationContext(NamedTuple):
    """Options that apply to the iterators being made."""

    options: DatasetOptions = _NO_OPTIONS


_NO_CONTEXT = IterationContext()

_current: contextvars.ContextVar[IterationContext] = contextvars.ContextVar(
    "grain_iteration_context", default=_NO_CONTEXT
)


def current_context() -> IterationContext:
    """Return the context in force where an iterator is being made."""
    return _current.get()


@contextlib.contextmanager
def iteration_context(context: IterationContext) -> Iterator[None]:
    """Make `context` the current context inside the `with` block."""
    before = _current.get()
    try:
        # Inside: an interrupt right after it must not leave the context in force.
        _current.set(context)
        yield
    finally:
        _current.set(before)


ProcessPrefetcher = Callable[[Any, MultiprocessingOptions, Any], Any]


class Executors(Protocol):
    """The entry points of the execution layer, each imported at first use."""

    def reader(self, dataset: Any, start: int, stop: int, options: ReadOptions) -> BlockReader:
        """Return a reader of `dataset[start:stop]`, a map dataset."""

    def process_prefetcher(self) -> ProcessPrefetcher | None:
        """Return the function that computes in worker processes; None inside a worker process."""

    def ahead(self) -> Any:
        """Return the opener of interleaved datasets, which reads ahead in threads."""


_executors: list[Executors] = []


def install_executors(found: Executors) -> None:
    """Install the entry points of this process; called once, when the library is imported."""
    _executors[:] = [found]


def executors() -> Executors:
    """Return the entry points of this process."""
    return _executors[0]
