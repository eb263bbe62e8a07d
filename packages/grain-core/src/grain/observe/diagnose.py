"""`diagnose`: read a bounded sample of a dataset, and say what limits it."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any, TextIO

from grain.dataset.same_epoch import looking
from grain.observe.statistics import PipelineStatistics
from grain.observe.switch import observing
from grain.options import checked_int, checked_seconds

_NO_FILE: Any = object()


def diagnose(
    ds: Any,
    *,
    max_seconds: float = 5.0,
    max_elements: int | None = None,
    consumer: Callable[[Any], Any] | None = None,
    trace: bool = False,
    file: TextIO | None = _NO_FILE,
) -> PipelineStatistics:
    """Read a sample of a dataset, print where the time is spent and what limits it, and return that.

    Without a `consumer` the sample is read as fast as possible, so the verdict names what limits the
    pipeline itself. With the training step as consumer it also tells whether the pipeline keeps up.

    Args:
        ds: A dataset or a `DataLoader`.
        max_seconds: How long to read, from the first element on. An element that takes longer is awaited.
        max_elements: How many elements to read at most.
        consumer: Called with each element.
        trace: Whether to record a timeline.
        file: Where to print; `sys.stdout` by default, None prints nothing.

    >>> import grain
    >>> ds = grain.MapDataset.range(1000).map(lambda x: x + 1).batch(10)
    >>> stats = grain.diagnose(ds, max_elements=50, file=None)
    >>> stats.elements
    50
    """
    seconds = checked_seconds("max_seconds", max_seconds)
    most = None if max_elements is None else checked_int("max_elements", max_elements, least=1)
    if not hasattr(type(ds), "__iter__") or hasattr(type(ds), "__next__"):
        raise TypeError(
            f"diagnose needs a dataset or a DataLoader, which it iterates itself, got {ds!r} of type "
            f"{type(ds).__name__}."
        )
    with looking(), observing(trace=trace) as observation:
        iterator = iter(ds)
        if not hasattr(iterator, "get_state"):
            raise TypeError(
                f"diagnose needs a grain dataset or a DataLoader, got {type(ds).__name__}; write "
                "`grain.MapDataset.source(records)` for a sequence of records."
            )
        try:
            _consume(iterator, seconds, most, consumer)
            stats = observation.stats()
        finally:
            if hasattr(iterator, "close"):
                iterator.close()
    target = sys.stdout if file is _NO_FILE else file
    if target is not None:
        print(stats, file=target)
    return stats


def _consume(
    iterator: Any, seconds: float, most: int | None, consumer: Callable[[Any], Any] | None
) -> None:
    """Take elements until the time is over, counted from the first."""
    deadline = None
    for taken, element in enumerate(iterator, start=1):
        if consumer is not None:
            consumer(element)
        now = time.monotonic()
        if deadline is None:
            deadline = now + seconds
        if taken == most or now >= deadline:
            return
