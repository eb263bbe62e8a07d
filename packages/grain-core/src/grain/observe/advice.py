"""What to change about the node that limits a pipeline, and the gain to expect; see `verdict.py`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from grain._policy import DEFAULT_POLICY
from grain.observe.statistics_table import bytes_text, seconds_text
from grain.observe.unit_groups import (
    BATCHING,
    BOUNDARY,
    LOADER_RECORDS,
    MOST_HEADROOM,
    UnitGroup,
    bounded,
    called,
    contention,
    total_seconds,
)

if TYPE_CHECKING:
    from grain.observe.statistics import NodeStatistics, PipelineStatistics

# A smaller gain is within the error of its estimate.
WORTHWHILE = 1.2
# A node that uses a processor for a smaller share of its time waits for something else.
_COMPUTES = 0.25
# Units whose nodes take so many times longer than the units themselves compute in several threads each.
_THREADED = 1.5
# To replace threads by workers must pay off even if sending takes so many times longer than estimated.
_SENDING_ERROR = 3.0
_MANY_THREADS = "grain.ReadOptions(num_threads=16)"


def _more_units(
    stats: PipelineStatistics, node: NodeStatistics, limit: UnitGroup, groups: list[UnitGroup]
) -> str:
    """Return the advice to compute a node in parallel, with the gain to expect."""
    name = called(node)
    if node.location == "stream":
        return (
            f"Make {name} faster: one worker reads this stream from start to end. Read it by index, or "
            "interleave several streams, and more workers help."
        )
    if limit.place == "workers":
        return _more_workers(stats, node, limit, groups)
    faster = f"Make {name} faster"
    if node.operation in BATCHING and node.function is None:
        faster = f"Give {name} less to copy: smaller types, fewer arrays in an element"
    if limit.place == "threads":
        return f"{faster}, or add threads (`ReadOptions(num_threads=...)`)."
    workers = _new_workers(stats)
    inline = _inline_seconds(groups)
    gain = _gain_of_workers(stats, inline, workers, _transfer_seconds(stats))
    if gain >= WORTHWHILE:
        return f"{faster}; or {_with_workers(stats, workers)} would give about {gain:.1f}x."
    if _gain_of_workers(stats, inline, workers, 0.0) < WORTHWHILE:
        return f"{faster}."  # Workers would not help even if sending cost nothing.
    if _transfer_is_of_bytes(stats):
        return f"{faster}: workers would take as long to send elements of {_element_size(stats)}."
    seconds = seconds_text(inline / max(1, stats.wait.count))
    return (
        f"{faster}, or batch more elements at a time: at {seconds} each, workers would take as long "
        "to send them."
    )


def _more_workers(
    stats: PipelineStatistics, node: NodeStatistics, limit: UnitGroup, groups: list[UnitGroup]
) -> str:
    """Return the advice about a node that workers compute already."""
    name = called(node)
    serial = stats.consumer_busy_seconds + _inline_seconds(groups)
    waits = _waits(stats, node, limit)
    if not waits and stats.processors is not None and limit.units >= stats.processors:
        return (
            f"Make {name} faster: it computes, and {_counted(limit.units, 'worker')} on "
            f"{_counted(stats.processors, 'processor')} can do no more."
        )
    more = limit.units * 2 if waits else limit.units + max(1, limit.units // 2)
    if not waits and stats.processors is not None:
        more = min(more, stats.processors)
    gain = min(
        _gain(total_seconds(stats), limit.seconds * limit.units / more, serial), more / limit.units
    )
    workers = "one more worker" if more == limit.units + 1 else f"{more} workers"
    if not waits:
        if gain < WORTHWHILE:
            return f"Make {name} faster."
        return f"Make {name} faster; or {workers} would give about {gain:.1f}x."
    if gain < WORTHWHILE:
        return f"{name} mostly waits, and more workers would gain little: make it faster."
    advice = (
        f"{name} mostly waits, so workers beyond the number of processors help: {workers} would "
        f"give about {gain:.1f}x."
    )
    return f"{advice} {_threads_in_workers(stats, node, limit)}".rstrip()


def _threads_in_workers(stats: PipelineStatistics, node: NodeStatistics, limit: UnitGroup) -> str:
    """Return the advice to compute a node in threads of each worker, where threads can compute it."""
    if node.id not in _computed_in_threads(stats):
        return ""
    if sum(limit.node_seconds.values()) > _THREADED * limit.seconds * limit.units:
        return "More threads in each worker (`ReadOptions(num_threads=...)`) help as well."
    options = f"to_iter_dataset({_MANY_THREADS})"
    if any(found.operation in LOADER_RECORDS for found in stats.nodes):
        options = f"DataLoader(read_options={_MANY_THREADS})"
    return f"Threads in each worker (`{options}`) help as well, and cost less memory."


def _computed_in_threads(stats: PipelineStatistics) -> set[int]:
    """Return the nodes that the threads of `ReadOptions` compute: those of map datasets."""
    found = {node.id for node in stats.nodes if node.operation in LOADER_RECORDS}
    for node in reversed(stats.nodes):
        if node.operation in BOUNDARY or node.id in found:
            found.update(node.parents)
    return found


def _waits(stats: PipelineStatistics, node: NodeStatistics, limit: UnitGroup) -> bool:
    """Return whether a node mostly waits, as for storage or a network, instead of computing."""
    cpu, seconds = node.cpu_seconds, node.self_seconds
    if cpu is None:
        cpu, seconds = limit.cpu_seconds, limit.seconds * limit.units
        if not cpu:  # It was not measured.
            return False
    return cpu * contention(stats) < _COMPUTES * seconds


def _inline_seconds(groups: list[UnitGroup]) -> float:
    return next((group.seconds for group in groups if group.place == "consumer"), 0.0)


def _new_workers(stats: PipelineStatistics) -> int:
    """Return how many workers to suggest to a pipeline without any."""
    return 2 if stats.processors is None else max(1, min(2, stats.processors))


def _gain_of_workers(
    stats: PipelineStatistics, seconds: float, workers: int, transfer: float
) -> float:
    """Return the factor of throughput if workers did some work and sent the elements.

    Args:
        stats: The measurements.
        seconds: The time of the work, which the consumer waits for now.
        workers: The number of workers.
        transfer: The time to receive the elements; to send them takes as long.
    """
    floor = stats.consumer_busy_seconds
    gain = _gain(seconds + floor, (seconds + transfer) / workers, floor + transfer)
    return min(gain, workers + floor / max(seconds, 1e-9))


def _transfer_seconds(stats: PipelineStatistics) -> float:
    """Return the time to receive the measured elements from worker processes."""
    each = DEFAULT_POLICY.element_seconds + DEFAULT_POLICY.byte_seconds * _element_bytes(stats)
    return each * stats.wait.count


def _transfer_is_of_bytes(stats: PipelineStatistics) -> bool:
    """Return whether the size of elements, not their number, makes sending them expensive."""
    return DEFAULT_POLICY.byte_seconds * _element_bytes(stats) > DEFAULT_POLICY.element_seconds


def _element_bytes(stats: PipelineStatistics) -> float:
    return stats.bytes / max(1, stats.elements)


def _element_size(stats: PipelineStatistics) -> str:
    return bytes_text(_element_bytes(stats))


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


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
    threads = f"to_iter_dataset({_MANY_THREADS})"
    if node.operation in LOADER_RECORDS:
        threads = f"DataLoader(read_options={_MANY_THREADS})"
    ahead = f"Read ahead in threads (`{threads}`) if reading waits"
    workers = _new_workers(stats)
    gain = _gain_of_workers(stats, _inline_seconds(groups), workers, _transfer_seconds(stats))
    if gain < WORTHWHILE:
        return f"{ahead}."
    return f"{ahead}, or in workers ({_with_workers(stats, workers)})."


def _lock_advice(
    stats: PipelineStatistics, node: NodeStatistics, limit: UnitGroup, groups: list[UnitGroup]
) -> str:
    del groups
    name, workers = called(node), _new_workers(stats)
    # What threads that take turns need beyond this, they wait for their turn.
    seconds = min(stats.wait.total_seconds, limit.cpu_seconds)
    transfer = _SENDING_ERROR * _transfer_seconds(stats)
    if _gain_of_workers(stats, seconds, workers, transfer) < WORTHWHILE:
        slow = f"Make {name} faster: more threads do not compute it faster"
        if _gain_of_workers(stats, seconds, workers, 0.0) < WORTHWHILE:
            return f"{slow}."
        sent = (
            f"elements of {_element_size(stats)}"
            if _transfer_is_of_bytes(stats)
            else "its elements"
        )
        return f"{slow}, and workers would take as long to send {sent}."
    return (
        f"{name} holds the interpreter lock, so threads take turns: use worker processes "
        f"({_with_workers(stats, workers)})."
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


def small_gain_advice(
    stats: PipelineStatistics, limit: UnitGroup, groups: list[UnitGroup], removed: float
) -> str | None:
    """Return what to do where a faster node would gain little because something else takes as long.

    Args:
        stats: The measurements.
        limit: The group of the node.
        groups: All groups.
        removed: The time of the node, summed over the units of the group.
    """
    total = total_seconds(stats)
    if stats.consumer_busy_seconds * WORTHWHILE > total:
        most = bounded(total / max(stats.consumer_busy_seconds, 1e-9))
        return (
            f"The consumer works for {stats.consumer_busy_seconds / total:.0%} of the time, so a pipeline "
            f"that never lets it wait would give about {most:.2f}x: the pipeline needs little change."
        ).replace("%", " %")
    rest = limit.seconds - removed / limit.units
    others = [group for group in groups if group is not limit and group.node_seconds]
    next_group = max(others, key=lambda group: group.seconds, default=None)
    if next_group is None or next_group.seconds <= rest or next_group.seconds * WORTHWHILE < total:
        return None
    place = {"consumer": "the consumer's thread", "threads": "threads", "workers": "the workers"}
    return (
        f"{called(stats.node(next_group.largest[0]))} in {place[next_group.place]} takes nearly as "
        "long: make both faster."
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
