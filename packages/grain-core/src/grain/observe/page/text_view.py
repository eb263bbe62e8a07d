"""The page of a pipeline as text, for terminals."""

from __future__ import annotations

import textwrap

from grain.observe.page.content import PageContent
from grain.observe.page.graph_view import percent, with_separators
from grain.observe.page.lanes import LaneRow, lay_out
from grain.observe.page.markup import visible
from grain.observe.page.page_graph import PageNode
from grain.observe.page.preview import counted, safe_repr, shortened
from grain.observe.statistics import PipelineStatistics
from grain.observe.statistics_table import bytes_text, has_rate, rate_text, seconds_text

_BAR = 12
_NAME = 60
_SPEC = 60
_ELEMENT = 100
_MOST_SAMPLED = 30


def text_view(content: PageContent, *, width: int = 120) -> str:
    """Return a page as text: verdict, graph with figures, consumer, workers, and sample elements.

    Args:
        content: What the page shows.
        width: The most characters of a line.
    """
    lines: list[str] = []
    stats = content.statistics
    if stats is not None:
        lines += [*textwrap.wrap(visible(content.verdict.sentence), width), ""]
    lines += _graph(content)
    if stats is not None:
        lines += ["", *_consumer(stats)]
    lines += _samples(content)
    if content.note:
        lines += ["", *textwrap.wrap(visible(content.note), width)]
    return "\n".join(_cut(visible(line), width) for line in lines)


def _cut(line: str, width: int) -> str:
    return line if len(line) <= width else f"{line[: width - 1]}…"


def _graph(content: PageContent) -> list[str]:
    by_id = {node.id: node for node in content.nodes}
    rows = lay_out(content.nodes, content.bottleneck)
    lanes = 1 + max((max(row.lane, *row.merging, *row.passing, 0) for row in rows), default=0)
    cells = [_cells(row, by_id[row.node], content) for row in rows]
    header = ("operation", "elements", "each", "share", "") if content.has_timings else ()
    table = [header, *cells] if header else cells
    widths = [max((len(line[column]) for line in table), default=0) for column in range(5)]
    lines = []
    if header:
        lines.append(f"{'':{2 * lanes}} {_aligned(header, widths)}".rstrip())
    for row, line in zip(rows, cells, strict=True):
        if row.merging:
            lines.append(_merge(row, lanes))
        lines.append(f"{_rail(row, lanes)} {_aligned(line, widths)}".rstrip())
    return lines


def _aligned(cells: tuple[str, ...], widths: list[int]) -> str:
    name, *numbers, rest = cells
    texts = [name.ljust(widths[0])]
    texts += [cell.rjust(width) for cell, width in zip(numbers, widths[1:4], strict=True)]
    return "  ".join([*texts, rest]).rstrip()


def _cells(row: LaneRow, node: PageNode, content: PageContent) -> tuple[str, ...]:
    if row.left_out:
        return f"{counted(len(row.left_out), 'operation')} of further branches", "", "", "", ""
    label = f"{row.label}: " if row.label else ""
    name = shortened(f"{label}{node.name}", _NAME)
    if row.repeated:
        return name, "", "", "", "(shown above)"
    measured = content.measured(node.id)
    spec = shortened(node.spec, _SPEC)
    if measured is None:
        return name, with_separators(node.length), "", "", spec
    each = measured.self_seconds / measured.elements_out if measured.elements_out else 0.0
    share = content.share(node.id)
    bar = "█" * round(_BAR * share)
    rest = [f"{bar:<{_BAR}}", "<- bottleneck" if content.bottleneck == node.id else ""]
    if measured.dropped:
        rest.append(f"{measured.dropped_share:.0%} dropped")
    rest.append(spec)
    texts = "  ".join(filter(None, rest))
    return name, f"{measured.elements_out:,}", seconds_text(each), percent(share), texts


def _rail(row: LaneRow, lanes: int) -> str:
    return "".join(
        "● " if lane == row.lane else "│ " if lane in row.passing else "  " for lane in range(lanes)
    )[: 2 * lanes]


def _merge(row: LaneRow, lanes: int) -> str:
    """Return a line with the lanes that end at the next row."""
    last = max(row.merging)
    text = ""
    for lane in range(lanes):
        if lane == row.lane:
            text += "├─"
        elif row.lane < lane <= last:
            text += "╯ " if lane == last else "┴─" if lane in row.merging else "──"
        else:
            text += "│ " if lane in row.passing else "  "
    return text.rstrip()


def _consumer(stats: PipelineStatistics) -> list[str]:
    wait = stats.wait
    size = f", {bytes_text(stats.bytes)}" if stats.bytes else ""
    rate = (
        f"{rate_text(stats.throughput)} per second"
        if has_rate(stats)
        else "too few to tell the rate"
    )
    lines = [
        f"{counted(stats.elements, 'element')}{size} in {seconds_text(stats.elapsed_seconds)}: "
        f"{rate}, executor {stats.executor}",
        f"consumer waits {percent(stats.wait_share)} of its time: p50 {seconds_text(wait.p50)}, "
        f"p95 {seconds_text(wait.p95)}, p99 {seconds_text(wait.p99)}; "
        f"{seconds_text(stats.setup_seconds)} until the first element",
    ]
    for worker in stats.workers:
        total = worker.busy_seconds + worker.idle_seconds
        share = worker.busy_seconds / total if total > 0 else 0.0
        bar = f"{'█' * round(_BAR * share):<{_BAR}}"
        restarts = f", {counted(worker.restarts, 'restart')}" if worker.restarts else ""
        tasks = counted(worker.tasks, "task")
        lines.append(f"{worker.name:<10} {bar} busy {percent(share)}, {tasks}{restarts}")
    return lines


def _samples(content: PageContent) -> list[str]:
    lines: list[str] = []
    sampled = [node for node in content.nodes if content.samples.get(node.id)]
    for node in sampled[:_MOST_SAMPLED]:
        sample = content.samples[node.id][0]
        text = sample.error or safe_repr(sample.element, _ELEMENT)
        lines.append(f"  {node.id:>2} {shortened(node.name, 32):<32}  {text}")
    if len(sampled) > _MOST_SAMPLED:
        lines.append(f"   … of {counted(len(sampled) - _MOST_SAMPLED, 'more operation')}")
    return ["", "first elements:", *lines] if lines else []
