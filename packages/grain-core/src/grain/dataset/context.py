"""Options in force while iterators are made."""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Iterator
from typing import Any, NamedTuple

from grain.options import DatasetOptions

_NO_OPTIONS = DatasetOptions()


class IterationContext(NamedTuple):
    """Options that apply to the iterators being made.

    Attributes:
        options: Options of the dataset.
        observation: The recorder of an observed pipeline; None if it is not observed.
    """

    options: DatasetOptions = _NO_OPTIONS
    observation: Any = None


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
