"""The recorder that datasets and iterators of users call for their own measurements.

It records nothing unless the pipeline is observed; then nodes and iterators have another one
(`grain.observe.user_recorder`).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")

_NOTHING = contextlib.nullcontext()

# Categories for the decorators below, as in google/grain.
IPL_CAT_ENQUEUE = "enqueue"
IPL_CAT_PREFETCH = "prefetch"
IPL_CAT_PREPROCESSING = "preprocessing"
IPL_CAT_READ = "read"
IPL_CAT_UNKNOWN = "unknown"


class Stats:
    """A recorder that records nothing; its methods are those of google/grain.

    Elements pass through unchanged: their sizes and counts are measured where they are returned.

    >>> with Stats().record_self_time():
    ...     element = 3
    >>> Stats().record_output_spec(element)
    3
    """

    def record_self_time(
        self, *, num_elements: int = 1, offset_ns: float = 0
    ) -> contextlib.AbstractContextManager[None]:
        """Return a context for the time that an operation spends on its own."""
        del num_elements, offset_ns
        return _NOTHING

    def record_output_spec(self, element: T) -> T:
        """Return the element."""
        return element

    record_output_spec_for_batch = record_output_spec
    record_bytes_consumed = record_output_spec
    record_bytes_produced = record_output_spec

    def report(self) -> None:
        """Do nothing: there is nothing to report."""


NO_STATS = Stats()


def record_next_duration_if_output(next_fn: F) -> F:
    """Return the function itself, a `__next__`: that of the output is timed when it is observed."""
    return next_fn


def trace_input_pipeline(
    stage_category: str = IPL_CAT_UNKNOWN, **trace_kwargs: Any
) -> Callable[[F], F]:
    """Return a decorator that returns the function itself."""
    del stage_category, trace_kwargs
    return record_next_duration_if_output


def trace_input_pipeline_next(stage_category: str = IPL_CAT_PREFETCH) -> Callable[[F], F]:
    """Return a decorator that returns the function itself."""
    return trace_input_pipeline(stage_category)


trace_input_pipeline_prefetch = trace_input_pipeline_next
