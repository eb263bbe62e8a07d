"""Options in force while iterators are made, and the executors that datasets read through."""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, Protocol

from grain.options import DatasetOptions, MultiprocessingOptions, ReadOptions


class BlockReader(Protocol):
    """Reads the elements of a map dataset in order, ahead of the consumer or not."""

    def read(self, limit: int) -> list[Any]:
        """The next elements, at most `limit`; shorter at will, empty only at the end."""

    def seek(self, index: int) -> None:
        """Goes on reading at `index`."""

    def start(self) -> None:
        """Begins to read ahead, if that is what this reader does."""

    def close(self) -> None:
        """Gives everything back."""


_NO_OPTIONS = DatasetOptions()


class IterationContext(NamedTuple):
    """Options that apply to the iterators being made."""

    options: DatasetOptions = _NO_OPTIONS


_NO_CONTEXT = IterationContext()

_current: contextvars.ContextVar[IterationContext] = contextvars.ContextVar(
    "grain_iteration_context", default=_NO_CONTEXT
)


def current_context() -> IterationContext:
    """The context in force where an iterator is being made."""
    return _current.get()


@contextlib.contextmanager
def iteration_context(context: IterationContext) -> Iterator[None]:
    """Makes iterators inside the `with` block see `context`."""
    token = _current.set(context)
    try:
        yield
    finally:
        _current.reset(token)


ProcessPrefetcher = Callable[[Any, MultiprocessingOptions, Any], Any]


class Executors(Protocol):
    """Who computes for datasets in this process, each found when it is first needed."""

    def reader(self, dataset: Any, start: int, stop: int, options: ReadOptions) -> BlockReader:
        """Makes a reader of `dataset[start:stop]`, a map dataset."""

    def process_prefetcher(self) -> ProcessPrefetcher | None:
        """Who computes in worker processes, or None where this process is to do it all."""

    def ahead(self) -> Any:
        """Who opens and reads ahead datasets that are read by turns."""


_executors: list[Executors] = []


def install_executors(found: Executors) -> None:
    """Says who computes in this process; called once, when the library is imported."""
    _executors[:] = [found]


def executors() -> Executors:
    """Who computes in this process."""
    return _executors[0]
