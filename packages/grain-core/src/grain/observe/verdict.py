"""The verdict: what limits the throughput of a pipeline, from its statistics.

A pipeline is computed by *units*: the thread of the consumer, other threads, worker processes. Units that
compute the same nodes form a group. The group that is busy for the largest share of the time limits the
throughput, and within it the node that takes the most time. The consumer itself is the limit if it hardly
waits. Everything here is a function of the statistics: nothing is measured.
"""

from __future__ import annotations

import dataclasses
import statistics as means
from collections.abc import Mapping
from typing import TYPE_CHECKING

from grain.observe.advice import ADVICE, WORTHWHILE, small_gain_advice
from grain.observe.unit_groups import (
    BATCHING,
    BOUNDARY,
    MOST_HEADROOM,
    UnitGroup,
    bounded,
    called,
    contention,
    measured_part,
    total_seconds,
    unit_groups,
    with_preemption,
)
from grain.observe.warm_up import is_mostly_warm_up

if TYPE_CHECKING:
    from grain.observe.statistics import NodeStatistics, PipelineStatistics, WorkerStatistics

# A consumer that waits for a smaller share of its time is the limit itself.
_CONSUMER_WAITS = 0.1
# A worker that takes so many times longer per element than the others holds them up.
_SKEW = 2.5
# A worker that lost less time in all may have computed first tasks, which import modules.
_SKEW_SECONDS = 0.05
# Threads that use the processor for a larger share of their time contend for the interpreter lock.
_CPU_BOUND = 0.4
# Threads that use more processors than this do not contend for the lock.
_PARALLEL = 1.3
# A component of a mixture whose elements cost so many times those of the others starves it.
_STARVED = 3.0
# A filter that drops more than this wastes the work below it.
_WASTEFUL = 0.5

_FILTERS = ("filter",)
_DEVICES = ("device_put", "to_mesh", "PlacedIterDataset")
_PREFETCHING = ("mp_prefetch",)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Verdict:
    """What limits the throughput.

    Attributes:
        kind: `source`, `transform`, `filter`, `batching`, `packing`, `transport`, `skewed_worker`, `gil`,
            `device`, `mixture`, `iteration` (elements are handed out one by one), `consumer`, or `unknown`
            when too little was measured.
        node: The id of the node that limits; None where it is not a node.
        worker: The name of the worker that limits, for `skewed_worker`.
        share: The share of the limiting unit's time, from 0 to 1.
        headroom: By which factor the throughput would grow if this limit were removed; 1 for none.
        advice: The change that would help.
        sentence: The finding in one sentence, with the advice.
    """

    kind: str
    node: int | None = None
    worker: str | None = None
    share: float = 0.0
    headroom: float = 1.0
    advice: str = ""
    sentence: str = ""

    def __str__(self) -> str:
        return self.sentence


def find_verdict(stats: PipelineStatistics) -> Verdict:
    """Return what limits the throughput."""
    if not stats.elements or not stats.nodes:
        return _unknown("No element was measured.", "Read some elements first.")
    if not stats.wait.count:
        return _unknown(
            "Only the first element was measured, which includes the start.", "Read more elements."
        )
    if is_mostly_warm_up(stats):
        return _unknown(
            "Most of the measured elements were computed with the first one, so the sample is too small to "
            "tell what limits the pipeline.",
            "Read more elements.",
        )
    if stats.wait_share < _CONSUMER_WAITS:
        return _consumer(stats)
    groups = unit_groups(stats)
    if not groups:
        return _unknown("The time of the nodes was not measured.", "Read more elements.")
    limit = max(groups, key=lambda group: group.seconds)
    # The one that is busy the longest is found by all of its time, which includes the warm-up.
    place = groups.index(limit)
    groups = [measured_part(stats, group) for group in groups]
    limit = groups[place]
    skewed = _skewed_worker(stats) if limit.place == "workers" else None
    if skewed is not None:
        return skewed
    if _is_transport(stats, limit):
        return _transport(stats, limit, groups)
    groups[place] = limit = with_preemption(stats, limit)
    return _node(stats, limit, groups)


def _unknown(finding: str, advice: str) -> Verdict:
    return Verdict(kind="unknown", advice=advice, sentence=f"{finding} {advice}")


def _consumer(stats: PipelineStatistics) -> Verdict:
    share = 1 - stats.wait_share
    ratio = 1 / max(stats.wait_share, 1 / MOST_HEADROOM)
    amount = "about" if ratio < MOST_HEADROOM else "more than"
    advice = "Make the work between `next()` calls faster; the pipeline needs no change."
    return Verdict(
        kind="consumer",
        share=share,
        headroom=1.0,
        advice=advice,
        sentence=f"The consumer takes {_percent(share)} of the time and hardly waits: the pipeline could "
        f"deliver {amount} {ratio:.0f} times as many elements. {advice}",
    )


def _skewed_worker(stats: PipelineStatistics) -> Verdict | None:
    """Return the verdict on a worker that is much slower than the others, which wait for it."""
    workers = [worker for worker in stats.workers if worker.kind == "process" and worker.elements]
    if len(workers) < 2:
        return None
    costs = {worker.name: worker.busy_seconds / worker.elements for worker in workers}
    slowest = max(workers, key=lambda worker: costs[worker.name])
    others = means.median(cost for name, cost in costs.items() if name != slowest.name)
    cost = costs[slowest.name]
    if slowest.tasks < 2 or not others or cost < _SKEW * others:
        return None
    if (cost - others) * slowest.elements < _SKEW_SECONDS:
        return None
    ratio = cost / others
    faster = means.fmean(1 / cost for cost in costs.values()) * others
    headroom = bounded(1 / max(faster, 1e-9))
    advice = (
        f"Find out what slows {slowest.name} down: its processor, its storage, or a record that only it "
        "reads."
    )
    return Verdict(
        kind="skewed_worker",
        worker=slowest.name,
        share=_busy_share(slowest),
        headroom=headroom,
        advice=advice,
        sentence=f"{slowest.name.capitalize()} takes {ratio:.1f} times as long per element as the other "
        f"workers, and results are delivered in order: without it, throughput would be about "
        f"{headroom:.1f}x. {advice}",
    )


def _busy_share(worker: WorkerStatistics) -> float:
    total = worker.busy_seconds + worker.idle_seconds + worker.transport_seconds
    return worker.busy_seconds / total if total else 0.0


def _is_transport(stats: PipelineStatistics, limit: UnitGroup) -> bool:
    """Return whether sending results takes the most time of the limiting group."""
    node, seconds = limit.largest
    if limit.place == "workers":
        return limit.transport_seconds > seconds
    return node >= 0 and stats.node(node).operation in _PREFETCHING


def _transport(stats: PipelineStatistics, limit: UnitGroup, groups: list[UnitGroup]) -> Verdict:
    in_workers = limit.place == "workers"
    seconds = limit.transport_seconds if in_workers else limit.largest[1]
    share = limit.share(seconds)
    headroom = _headroom(stats, limit, groups, seconds)
    node = next((node.id for node in stats.nodes if node.operation in _PREFETCHING), None)
    per_element = stats.bytes / stats.elements if stats.elements else 0
    advice = (
        "Send less: convert to smaller types, crop or compress in the workers and expand after them; or use "
        "threads, which send nothing."
    )
    return Verdict(
        kind="transport",
        node=node,
        share=share,
        headroom=headroom,
        advice=advice,
        sentence=f"Moving elements of {_megabytes(per_element)} from the workers takes {_percent(share)} of "
        f"{'worker time' if in_workers else 'the time of the consuming thread'}; without it, throughput "
        f"would be about {headroom:.1f}x. {advice}",
    )


def _node(stats: PipelineStatistics, limit: UnitGroup, groups: list[UnitGroup]) -> Verdict:
    number, seconds = limit.largest
    contends = _contends_for_lock(stats, limit, _kind_of(stats.node(number)))
    if contends:
        number = _holder_of_lock(stats, limit)
        seconds = limit.node_seconds[number]
    node = stats.node(number)
    share = limit.share(seconds)
    headroom = _headroom(stats, limit, groups, seconds)
    kind, name = _kind_of(node), called(node)
    starved = _starved_component(stats, number)
    if starved is not None:
        kind = "mixture"
    elif contends:
        kind = "gil"
    advice: str | None = None
    if headroom < WORTHWHILE:
        advice = small_gain_advice(stats, limit, groups, seconds)
    if advice is None:
        advice = ADVICE[kind](stats, node, limit, groups)
    wasteful = _wasteful_filter(stats, number)
    if wasteful is not None:
        advice += (
            f" {called(wasteful)} drops {_percent(wasteful.dropped_share)} of these elements later: filter "
            "first, if it can."
        )
    subject = name if starved is None else f"{name}, in component {starved} of the mixture,"
    return Verdict(
        kind=kind,
        node=number,
        share=share,
        headroom=headroom,
        advice=advice,
        sentence=f"{subject} takes {_share_text(stats, limit, seconds)}; without it, throughput would "
        f"be {'about' if headroom < MOST_HEADROOM else 'more than'} {_factor(headroom)}. {advice}",
    )


def _share_text(stats: PipelineStatistics, limit: UnitGroup, seconds: float) -> str:
    """Return which share of which time a node of the limiting group takes."""
    share = _percent(limit.share(seconds))
    if limit.place == "threads":
        return f"{share} of thread time"
    if limit.place == "workers":
        return f"{share} of worker time"
    if stats.wait_share >= 0.5:
        return f"{share} of the pipeline's time"
    return f"{share} of the {_percent(stats.wait_share)} of the time that the consumer waits"


def _kind_of(node: NodeStatistics) -> str:
    operation = node.operation
    if not node.parents:
        return "source"
    if operation in _FILTERS:
        return "filter"
    if operation in BATCHING:
        return "batching"
    if "pack" in operation.lower() or "concatthensplit" in operation.lower().replace("_", ""):
        return "packing"
    if operation in _DEVICES:
        return "device"
    if operation in BOUNDARY:
        return "iteration"
    return "transform"


def _headroom(
    stats: PipelineStatistics, limit: UnitGroup, groups: list[UnitGroup], removed: float
) -> float:
    """Return the factor of throughput without an amount of work of the limiting group.

    Time in which no unit worked, as between two tasks, is taken to shrink like the work does, not to vanish.
    """
    total = total_seconds(stats)
    if limit.place == "consumer":
        remaining = total - min(removed, stats.wait.total_seconds)
    else:
        inline = next((group.seconds for group in groups if group.place == "consumer"), 0.0)
        remaining = max(
            limit.seconds - removed / limit.units,
            stats.consumer_busy_seconds + inline,
            *(group.seconds for group in groups if group is not limit),
        )
        remaining = max(remaining, total * (1 - limit.share(removed)))
    return bounded(total / max(remaining, total / MOST_HEADROOM))


def _contends_for_lock(stats: PipelineStatistics, limit: UnitGroup, kind: str) -> bool:
    """Return whether threads compute Python code, which one of them at a time can do."""
    if limit.place != "threads" or kind not in ("transform", "filter", "batching", "source"):
        return False
    total = total_seconds(stats)
    busy = limit.seconds * limit.units
    # Where other programs use the processors too, threads wait for those as well.
    parallel = limit.cpu_seconds / total if total else 0.0
    is_cpu_bound = limit.cpu_seconds * contention(stats) > _CPU_BOUND * min(total, busy)
    return is_cpu_bound and parallel < _PARALLEL


def _holder_of_lock(stats: PipelineStatistics, limit: UnitGroup) -> int:
    """Return the node with the most processor time; the time of the others is waiting for the lock."""
    return max(limit.node_seconds, key=lambda number: stats.node(number).cpu_seconds or 0.0)


def _below(by_id: Mapping[int, NodeStatistics], number: int) -> set[int]:
    """Return a node and all that it reads from."""
    found: set[int] = set()
    pending = [number]
    while pending:
        current = pending.pop()
        if current not in found:
            found.add(current)
            pending.extend(by_id[current].parents)
    return found


def _starved_component(stats: PipelineStatistics, number: int) -> int | None:
    """Return the component of a mixture that a node belongs to, if its elements cost far more."""
    seconds = {node.id: node.self_seconds for node in stats.nodes}
    returned = {node.id: node.elements_out for node in stats.nodes}
    by_id = {node.id: node for node in stats.nodes}
    for node in stats.nodes:
        if node.operation != "mix" or len(node.parents) < 2:
            continue
        parts = [_below(by_id, parent) for parent in node.parents]
        holders = [place for place, part in enumerate(parts) if number in part]
        if len(holders) != 1:
            continue
        costs = [
            sum(seconds[item] for item in part) / max(1, returned[parent])
            for part, parent in zip(parts, node.parents, strict=True)
        ]
        own = costs.pop(holders[0])
        if own > _STARVED * means.median(costs):
            return holders[0]
    return None


def _wasteful_filter(stats: PipelineStatistics, number: int) -> NodeStatistics | None:
    """Return a filter above a node that drops most of its elements."""
    by_id = {node.id: node for node in stats.nodes}
    for node in stats.nodes:
        if node.id == number or node.dropped_share <= _WASTEFUL:
            continue
        if number in _below(by_id, node.id):
            return node
    return None


def _factor(value: float) -> str:
    return f"{value:.2g}x" if value < 10 else f"{value:.0f}x"


def _percent(share: float) -> str:
    return f"{share * 100:.0f} %"


def _megabytes(count: float) -> str:
    return f"{count / 1e6:.3g} MB" if count >= 1e4 else f"{count:.0f} bytes"
