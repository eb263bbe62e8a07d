"""What an export reads: an observed iterator, an observation, statistics, or all observed pipelines."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from grain.observe.statistics import PipelineStatistics
from grain.observe.switch import live_pipelines

Collect = Callable[[], tuple[PipelineStatistics, ...]]


def collector(subject: Any = None) -> Collect:
    """Return a function that returns the current statistics of a subject.

    Args:
        subject: An observed iterator (`stats()`), an observation (`pipelines`), statistics, a list of
            these, or None for all observed pipelines of the process.

    Raises:
        TypeError: The subject is something else.
    """
    if subject is None:
        return live_pipelines
    if isinstance(subject, PipelineStatistics):
        return lambda: (subject,)
    if hasattr(subject, "pipelines"):
        return lambda: tuple(subject.pipelines)
    if callable(getattr(subject, "stats", None)):
        return lambda: (subject.stats(),)
    if isinstance(subject, Iterable) and not isinstance(subject, str | bytes):
        parts = [collector(part) for part in subject]
        return lambda: tuple(stats for part in parts for stats in part())
    raise TypeError(
        "Expected an observed iterator, an observation of `grain.observing()` or PipelineStatistics, got "
        f"{subject!r} of type {type(subject).__name__}."
    )
