"""Whether a sample is large enough: the warm-up may compute what later elements are made of."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grain.observe.unit_groups import total_seconds

if TYPE_CHECKING:
    from grain.observe.statistics import PipelineStatistics


def is_mostly_warm_up(stats: PipelineStatistics) -> bool:
    """Return whether the warm-up computed most of what the measured elements consist of.

    An operation such as packing takes in many elements before it returns the first, and then returns some
    without any further work. The time of those says little about a longer run.
    """
    count = stats.wait.count
    if not count or stats.wait.warm_up_seconds <= total_seconds(stats):
        return False
    return any(
        node.warm_up_elements > node.elements_out - node.warm_up_elements < count
        for node in stats.nodes
    )
