"""Where the time of the consumer and of the workers is spent, as HTML."""

from __future__ import annotations

from collections.abc import Sequence

from grain.observe.page.graph_view import percent
from grain.observe.page.markup import Markup, join, tag
from grain.observe.page.preview import counted, shortened
from grain.observe.statistics import PipelineStatistics, Span, WorkerStatistics
from grain.observe.statistics_table import seconds_text

_COLOURS = 8
_WIDTH = 1000
_HEIGHT = 22
# Neighbouring spans of one node that are this close are drawn as one.
_CLOSE = 1.0
_MOST_RECTANGLES = 400
_MOST_TRACKS = 64
# The share of waiting from which on the consumer does nothing else.
_ALWAYS_WAITING = 0.99


def consumer_view(stats: PipelineStatistics) -> Markup:
    """Return the share of its time that the consumer waits, and how long for an element."""
    wait = stats.wait
    share = stats.wait_share
    bar = tag(
        "div",
        tag("i", class_="waits", style=f"width:{100 * share:.1f}%"),
        tag("i", class_="works", style=f"width:{100 - 100 * share:.1f}%"),
        class_="split",
        role="img",
        aria_label=f"The consumer waits {percent(share)} of the time",
    )
    legend = tag(
        "p",
        tag("span", tag("i", style="--swatch:var(--wait)"), f"waits for data {percent(share)}"),
        tag("span", tag("i", style="--swatch:var(--good)"), f"works {percent(1 - share)}"),
        class_="legend",
    )
    note: Markup | str = ""
    if stats.wait.count and share > _ALWAYS_WAITING:
        text = "No work was done between elements: the pipeline was read as fast as it can be."
        note = tag("p", text, class_="legend")
    figures = [
        ("median wait (p50)", wait.p50),
        ("p95", wait.p95),
        ("p99", wait.p99),
        ("longest", wait.longest),
        ("until the first element", stats.setup_seconds),
    ]
    quantiles = tag(
        "dl",
        *(tag("div", tag("dt", name), tag("dd", seconds_text(value))) for name, value in figures),
        class_="quantiles",
    )
    return join([bar, legend, note, quantiles])


def workers_view(stats: PipelineStatistics) -> Markup:
    """Return one line for each thread and worker: a timeline if it was traced, else its shares."""
    colours = _colours(stats)
    tracks = _tracks(stats)
    start = min((span.start for span in stats.spans), default=0.0)
    end = max((span.start + span.duration for span in stats.spans), default=0.0)
    by_name = {worker.name: worker for worker in stats.workers}
    lines: list[object] = []
    for name in tracks[:_MOST_TRACKS]:
        worker = by_name.get(name)
        spans = [span for span in stats.spans if span.track == name]
        if spans:
            drawing = _timeline(name, spans, start, end, colours)
        elif worker is not None:
            drawing = _shares(worker, colours)
        else:
            continue
        lines.append(tag("div", tag("span", name), drawing, _summary(worker), class_="track"))
    if len(tracks) > _MOST_TRACKS:
        lines.append(tag("p", tag("small", f"… {len(tracks) - _MOST_TRACKS} more")))
    if stats.spans:
        labels = tag("span", tag("b", seconds_text(start)), tag("b", seconds_text(end)))
        lines.append(tag("div", tag("i"), labels, tag("i"), class_="axis"))
    return join([*lines, _legend(stats, colours)])


def has_tracks(stats: PipelineStatistics) -> bool:
    """Return whether there is a worker, a thread or a timeline to show."""
    return bool(stats.workers or stats.spans)


def _tracks(stats: PipelineStatistics) -> list[str]:
    names = [worker.name for worker in stats.workers]
    names += sorted({span.track for span in stats.spans} - set(names))
    return names


def _colours(stats: PipelineStatistics) -> dict[int, str]:
    """Return the colour class of each of the nodes that take the most time."""
    slowest = sorted(stats.nodes, key=lambda node: node.self_seconds, reverse=True)
    return {node.id: f"s{number}" for number, node in enumerate(slowest[:_COLOURS])}


def _timeline(
    name: str, spans: Sequence[Span], start: float, end: float, colours: dict[int, str]
) -> Markup:
    scale = _WIDTH / ((end - start) or 1.0)
    merged: list[tuple[int, float, float]] = []
    for span in sorted(spans, key=lambda span: span.start):
        left = (span.start - start) * scale
        right = left + span.duration * scale
        if merged and merged[-1][0] == span.node and left - merged[-1][2] < _CLOSE:
            merged[-1] = span.node, merged[-1][1], max(merged[-1][2], right)
        else:
            merged.append((span.node, left, right))
    if len(merged) > _MOST_RECTANGLES:  # The longest; the others are thinner than a line.
        kept = sorted(merged, key=lambda m: m[1] - m[2])[:_MOST_RECTANGLES]
        merged = sorted(kept, key=lambda m: m[1])
    # Longer ones first: work that ran inside of another one is drawn on top of it.
    widths: dict[str, float] = {}
    paths: dict[str, list[str]] = {}
    for node, left, right in merged:
        width = max(right - left, 0.8)
        kind = colours.get(node, "other")
        widths[kind] = max(widths.get(kind, 0.0), width)
        paths.setdefault(kind, []).append(f"M{left:.1f} 0h{width:.1f}v{_HEIGHT}h{-width:.1f}z")
    order = sorted(paths, key=lambda kind: -widths[kind])
    rectangles = [tag("path", d="".join(paths[kind]), class_=kind) for kind in order]
    note = f"Timeline of {name}: {counted(len(spans), 'piece')} of work"
    return _drawing(rectangles, note)


def _shares(worker: WorkerStatistics, colours: dict[int, str]) -> Markup:
    """Return the time of a worker by node, as one bar."""
    total = worker.busy_seconds + worker.idle_seconds + worker.transport_seconds
    total = max(total, sum(worker.node_seconds.values())) or 1.0
    rectangles = []
    left = 0.0
    for node in sorted(worker.node_seconds):
        width = _WIDTH * worker.node_seconds[node] / total
        rectangles.append(_rectangle(left, width, colours.get(node, "other")))
        left += width
    rectangles.append(_rectangle(left, _WIDTH * worker.transport_seconds / total, "other"))
    return _drawing(rectangles, f"{worker.name}: time by operation")


def _rectangle(left: float, width: float, kind: str) -> Markup:
    return tag("rect", x=f"{left:.1f}", width=f"{width:.1f}", height=_HEIGHT, class_=kind)


def _drawing(rectangles: Sequence[Markup], note: str) -> Markup:
    box = f"0 0 {_WIDTH} {_HEIGHT}"
    return tag(
        "svg", *rectangles, viewBox=box, preserveAspectRatio="none", role="img", aria_label=note
    )


def _summary(worker: WorkerStatistics | None) -> Markup:
    if worker is None:
        return tag("span", "", class_="of")
    total = worker.busy_seconds + worker.idle_seconds
    texts = [f"busy {percent(worker.busy_seconds / total)}"] if total > 0 else []
    texts.append(counted(worker.tasks, "task"))
    if worker.restarts:
        texts.append(counted(worker.restarts, "restart"))
    return tag("span", " · ".join(texts), class_="of")


def _legend(stats: PipelineStatistics, colours: dict[int, str]) -> Markup:
    names = {node.id: node.name for node in stats.nodes}
    used = {span.node for span in stats.spans}
    used |= {node for worker in stats.workers for node in worker.node_seconds}
    items = [
        tag("span", tag("i", class_=colour), tag("code", shortened(names[node], 40)))
        for node, colour in colours.items()
        if node in used
    ]
    if any(worker.transport_seconds for worker in stats.workers) and not stats.spans:
        items.append(tag("span", tag("i", class_="other"), "transport"))
    return tag("p", *items, class_="legend")
