"""A bounded run of a pipeline to measure it, for its page."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from grain.dataset.same_epoch import looking
from grain.observe.page.preview import shortened, type_name
from grain.observe.statistics import PipelineStatistics
from grain.observe.switch import observing


def measured(
    dataset: Any,
    max_seconds: float,
    name: str | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> tuple[PipelineStatistics | None, str]:
    """Return the statistics of a pipeline that is read for some time, and the error that ended it.

    Args:
        dataset: A map or iter dataset. It is computed as it is, with its threads and workers.
        max_seconds: The time after the first element, after which no further one is read.
        name: A name for the pipeline.
        clock: Returns the time in seconds.
    """
    with looking(), observing(name=name, trace=True) as block:
        iterator: Any = None
        try:
            problem = ""
            try:
                iterator = iter(dataset)
                _read(iterator, max_seconds, clock)
            except Exception as error:  # A function of the user: the page shows what came before.
                problem = shortened(f"{type_name(error)}: {error}", 300)
            # While threads and workers still run: these are part of the statistics.
            return (block.stats() if block.recorders else None), problem
        finally:
            close = getattr(iterator, "close", None)
            if close is not None:
                close()


def _read(iterator: Any, max_seconds: float, clock: Callable[[], float]) -> None:
    """Read elements until the time is over, counted from the first: workers take time to start."""
    deadline = None
    for _ in iterator:
        now = clock()
        deadline = now + max_seconds if deadline is None else deadline
        if now >= deadline:
            return
