"""What to change about the node that limits a pipeline, and the gain to expect; see `verdict.py`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from grain._policy import DEFAULT_POLICY
from grain.observe.statistics_table import seconds_text
from grain.observe.unit_groups import (
    BATCHING,
    BOUNDARY,
    LOADER_RECORDS,
    MOST_HEADROOM,
    UnitGroup,
    bounded,
    called,
    total_seconds,
)

if TYPE_CHECKING:
    from grain.observe.statistics import NodeStatistics, PipelineStatistics

# A smaller gain is within the error of its estimate.
_WORTHWHILE = 1.2


def _more_units(
    stats: PipelineStatistics, node: NodeStatistics, limit: UnitGroup, groups: list[UnitGroup]
) -> str:
    """Return the advice to compute a node in parallel, with the gain to expect."""
    name = called(node)
    inline = next((group.seconds for group in groups if group.place == "consumer"), 0.0)
    total, floor = total_seconds(stats), stats.consumer_busy_seconds
    processors = stats.processors
    if node.location == "stream":
        return (
            f"Make {name} faster: one worker reads this stream from start to end. Read it by index, or "
            "interleave several streams, and more workers help."
        )
    if limit.place == "workers":
        more = limit.units + 1
        gain = min(
            _gain(total, limit.seconds * limit.units / more, floor + inline), more / limit.units
        )
        if processors is not None and limit.units >= processors:
            return f"Make {name} faster: the {limit.units} workers use all {processors} processors."
        return f"Make {name} faster; or one more worker would give about {gain:.1f}x."
    faster = f"Make {name} faster"
    if node.operation in BATCHING and node.function is None:
        faster = f"Give {name} less to copy: smaller types, fewer arrays in an element"
    if limit.place == "threads":
        return f"{faster}, or add threads (`ReadOptions(num_threads=...)`)."
    workers = 2 if processors is None else max(1, min(2, processors))
    gain = min(
        _gain(total, inline / workers, floor + _transfer_seconds(stats)),
        workers + floor / max(inline, 1e-9),
    )
    if gain < _WORTHWHILE:
        seconds = seconds_text(total / max(1, stats.wait.count))
        return (
            f"{faster}, or batch more elements at a time: at {seconds} each, workers would take as long "
            "to send them."
        )
    return f"{faster}; or {_with_workers(stats, workers)} would give about {gain:.1f}x."


def _transfer_seconds(stats: PipelineStatistics) -> float:
    """Return the time to receive the measured elements from worker processes."""
    each = DEFAULT_POLICY.element_seconds
    each += DEFAULT_POLICY.byte_seconds * stats.bytes / max(1, stats.elements)
    return each * stats.wait.count


def _with_workers(stats: PipelineStatistics, count: int) -> str:
    """Return what to write for worker processes."""
    operations = {node.operation for node in stats.nodes}
    if operations.intersection(LOADER_RECORDS):
        return f"`DataLoader(worker_count={count})`"
    call = f"mp_prefetch(num_workers={count})"
    return f"`{call}`" if operations.intersection(BOUNDARY) else f"`to_iter_dataset().{call}`"


def _gain(total: float, parallel: float, serial: float) -> float:
    return bounded(total / max(parallel, serial, total / MOST_HEADROOM))


def _read_advice(
    stats: PipelineStatistics, node: NodeStatistics, limit: UnitGroup, groups: list[UnitGroup]
) -> str:
    if limit.place == "threads":
        return (
            "Read ahead with more threads (`ReadOptions(num_threads=...)`), or keep the data on faster or "
            "nearer storage."
        )
    if limit.place == "workers":
        return _more_units(stats, node, limit, groups)
    options = "grain.ReadOptions(num_threads=16)"
    threads = f"to_iter_dataset({options})"
    if node.operation in LOADER_RECORDS:
        threads = f"DataLoader(read_options={options})"
    return (
        f"Read ahead in threads (`{threads}`) if reading waits, or in workers "
        f"({_with_workers(stats, 2)})."
    )


def _lock_advice(
    stats: PipelineStatistics, node: NodeStatistics, limit: UnitGroup, groups: list[UnitGroup]
) -> str:
    del groups, limit
    return (
        f"{called(node)} holds the interpreter lock, so threads take turns: use worker processes "
        f"({_with_workers(stats, 2)})."
    )


def _single_elements_advice(
    stats: PipelineStatistics, node: NodeStatistics, limit: UnitGroup, groups: list[UnitGroup]
) -> str:
    del limit, groups
    is_batched = any(stats.node(n).operation in BATCHING for n in node.parents)
    more = "Larger batches hand out more" if is_batched else "`batch` before it hands out many"
    seconds = seconds_text(total_seconds(stats) / max(1, stats.wait.count))
    return (
        f"No operation of yours limits it: an element takes {seconds}, most of it to hand out "
        f"elements one by one. {more} at once."
    )


def _fixed(text: str) -> Callable[..., str]:
    return lambda *_: text


ADVICE: Mapping[str, Callable[..., str]] = {
    "source": _read_advice,
    "transform": _more_units,
    "filter": _more_units,
    "mixture": _more_units,
    "batching": _more_units,
    "gil": _lock_advice,
    "iteration": _single_elements_advice,
    "packing": _fixed(
        "Packing depends on the order, so one thread computes it: use fewer bins, or the strategy "
        "`concat_then_split`; or prefetch it in a thread while the consumer computes."
    ),
    "device": _fixed(
        "Transfer less (smaller types, conversion on the device), or transfer ahead with a larger "
        "`device_buffer_size`."
    ),
}
