"""The execution summary of google/grain: the table that `py_debug_mode` logs, with its columns and units.

Rows are sorted by the share of the wait, and the names are wrapped. A node that prefetches has no share: its
time is that of the nodes below it. The least and the greatest time need a timeline, and are those of its
most recent spans.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from grain.observe.exports.span_times import times_per_element
from grain.observe.one_line import one_line
from grain.observe.statistics import NodeStatistics, PipelineStatistics

_HEADING = (
    "id",
    "name",
    "inputs",
    "percent wait time",
    "total processing time",
    "min processing time",
    "max processing time",
    "avg processing time",
    "num produced elements",
    "memory usage",
)
_NAME_WIDTH = 30
_NOT_KNOWN = "N/A"


def execution_summary(stats: PipelineStatistics) -> str:
    """Return the table of one pipeline, the node that takes most of the time first."""
    total = sum(node.self_seconds for node in stats.nodes if not _prefetches(node))
    ordered = sorted(
        stats.nodes, key=lambda node: (_prefetches(node), -node.self_seconds, -node.id)
    )
    times = times_per_element(stats.spans)
    rows = [_row(node, total, times.get(node.id)) for node in ordered]
    widths = [
        max(len(_HEADING[column]), *(len(line) for row in rows for line in row[column]), 0)
        for column in range(len(_HEADING))
    ]
    rule = "|" + "-" * (sum(widths) + 3 * len(widths) - 1) + "|"
    lines = [rule, *_lines([[cell] for cell in _HEADING], widths), rule]
    for row in rows:
        lines += [*_lines(row, widths), rule]
    return "\n".join(lines)


def summary_message(stats: PipelineStatistics) -> str:
    """Return the message that `py_debug_mode` logs: the table, then the verdict."""
    return (
        # Its first line is kept from google/grain 0.2.18.
        "Grain Dataset Execution Summary:\n\n"
        f"{one_line(stats.name)}: `percent wait time` is the share of the time that all nodes worked, in "
        f"all threads and workers.\n\n{execution_summary(stats)}\n\n{stats.verdict}"
    )


def _row(node: NodeStatistics, total: float, times: tuple[float, float] | None) -> list[list[str]]:
    share = _NOT_KNOWN
    if not _prefetches(node) and total > 0:
        share = f"{100 * node.self_seconds / total:.2f}%"
    produced = node.elements_out
    cells = [
        str(node.id),
        "",
        f"[{', '.join(map(str, node.parents))}]",
        share,
        duration_text(node.self_seconds),
        _NOT_KNOWN if times is None else duration_text(times[0]),
        _NOT_KNOWN if times is None else duration_text(times[1]),
        duration_text(node.self_seconds / produced) if produced else _NOT_KNOWN,
        str(produced),
        memory_text(_buffered_bytes(node)),
    ]
    row = [[cell] for cell in cells]
    row[1] = textwrap.wrap(one_line(node.name), _NAME_WIDTH) or [""]
    return row


def _lines(row: Sequence[Sequence[str]], widths: Sequence[int]) -> list[str]:
    height = max(len(cell) for cell in row)
    return [
        "| "
        + " | ".join(
            (cell[line] if line < len(cell) else "").ljust(width)
            for cell, width in zip(row, widths, strict=True)
        )
        + " |"
        for line in range(height)
    ]


def _prefetches(node: NodeStatistics) -> bool:
    return node.queue is not None


def _buffered_bytes(node: NodeStatistics) -> float:
    """Return the mean bytes of the prefetched results that wait to be taken."""
    if node.queue is None or not node.elements_out:
        return 0.0
    return node.queue.mean_occupancy * node.bytes_out / node.elements_out


def duration_text(seconds: float) -> str:
    """Return a duration with the unit that suits its size.

    >>> duration_text(0.0312), duration_text(781e-9), duration_text(885.013)
    ('31.20ms', '781ns', '885.01s')
    """
    if seconds >= 1:
        return f"{seconds:.2f}s"
    if seconds >= 1e-3:
        return f"{seconds * 1e3:.2f}ms"
    if seconds >= 1e-6:
        return f"{seconds * 1e6:.2f}us"
    return f"{seconds * 1e9:.0f}ns"


def memory_text(count: float) -> str:
    """Return a number of bytes with a binary unit.

    >>> memory_text(0), memory_text(174838), memory_text(3 << 30)
    ('0 bytes', '170.74 KiB', '3.00 GiB')
    """
    for unit, size in (("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if count >= size:
            return f"{count / size:.2f} {unit}"
    return f"{count:.0f} bytes"
