"""Statistics as text: a table of the nodes, the workers, the consumer's wait, and the verdict."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grain.observe.warm_up import is_mostly_warm_up

if TYPE_CHECKING:
    from grain.observe.statistics import PipelineStatistics

_NAME_WIDTH = 40


def seconds_text(seconds: float) -> str:
    """Return a duration with a unit that suits its size.

    >>> seconds_text(0.00123), seconds_text(75.2), seconds_text(0)
    ('1.23 ms', '75.2 s', '0 s')
    """
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if abs(seconds) >= size:
            return f"{seconds / size:.3g} {unit}" if seconds < 1000 else f"{seconds:.0f} s"
    return f"{seconds / 1e-9:.3g} ns" if seconds else "0 s"


def rate_text(rate: float) -> str:
    """Return a number per second.

    >>> rate_text(55_810.3), rate_text(2.3456)
    ('55,810', '2.35')
    """
    return f"{rate:,.0f}" if rate >= 100 else f"{rate:.3g}"


def bytes_text(count: float) -> str:
    """Return a number of bytes with a unit that suits its size.

    >>> bytes_text(512), bytes_text(2_500_000)
    ('512 B', '2.5 MB')
    """
    for unit, size in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= size:
            return f"{count / size:.3g} {unit}"
    return f"{count:.0f} B"


def statistics_table(stats: PipelineStatistics) -> str:
    """Return a table of the nodes, one line for the workers and the consumer, and the verdict."""
    total = sum(node.self_seconds for node in stats.nodes)
    rows = [("node", "runs in", "out", "dropped", "bytes", "self time", "share")]
    rows.extend(
        (
            f"{node.id} {_shortened(node.name)}",
            node.location,
            f"{node.elements_out:,}",
            f"{node.dropped_share:.0%}" if node.dropped else "",
            bytes_text(node.bytes_out) if node.bytes_out else "",
            seconds_text(node.self_seconds),
            f"{node.self_seconds / total:.0%}" if total else "",
        )
        for node in stats.nodes
    )
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = [
        "  ".join(
            cell.ljust(width) if column < 2 else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
    return "\n".join([*lines, "", *_summary(stats), str(stats.verdict)])


def _summary(stats: PipelineStatistics) -> list[str]:
    wait = stats.wait
    lines = [
        f"{stats.elements:,} elements in {seconds_text(stats.elapsed_seconds)} "
        f"({_rate(stats)}), executor: {stats.executor}",
        f"consumer waits {stats.wait_share:.0%} of its time: p50 {seconds_text(wait.p50)}, "
        f"p95 {seconds_text(wait.p95)}, p99 {seconds_text(wait.p99)}",
    ]
    for kind in sorted({worker.kind for worker in stats.workers}):
        workers = [worker for worker in stats.workers if worker.kind == kind]
        busy = sum(worker.busy_seconds for worker in workers)
        total = busy + sum(worker.idle_seconds for worker in workers)
        restarts = sum(worker.restarts for worker in workers)
        lines.append(
            f"{len(workers)} {kind}{'' if len(workers) == 1 else 'es' if kind == 'process' else 's'}: "
            + (f"busy {busy / total:.0%} of the time" if total else "no measured work")
            + (f", {restarts} restarts" if restarts else "")
        )
    return lines


def has_rate(stats: PipelineStatistics) -> bool:
    """Return whether enough elements were measured to tell how many there are per second."""
    return bool(stats.wait.count) and not is_mostly_warm_up(stats)


def _rate(stats: PipelineStatistics) -> str:
    first = seconds_text(stats.setup_seconds)
    if not has_rate(stats):
        return f"the first took {first}, too few to tell the rate"
    return f"{rate_text(stats.throughput)} per second after the first, which took {first}"


def _shortened(name: str) -> str:
    return name if len(name) <= _NAME_WIDTH else name[: _NAME_WIDTH - 3] + "..."
