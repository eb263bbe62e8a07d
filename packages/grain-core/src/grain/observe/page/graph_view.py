"""The graph of a pipeline as HTML: a row for each node, with lanes, figures and sample elements."""

from __future__ import annotations

from grain.observe.page.content import PageContent, Sample
from grain.observe.page.element_view import ElementView
from grain.observe.page.lanes import LaneRow, lay_out
from grain.observe.page.markup import Markup, join, tag
from grain.observe.page.page_graph import PageNode
from grain.observe.page.preview import counted, shortened
from grain.observe.statistics import NodeStatistics
from grain.observe.statistics_table import bytes_text, seconds_text

_LANE = 18
_MOST_NAMES = 60
_NAME = 160
# Branches that are left out are listed up to this number of nodes.
_MOST_LISTED = 100


def graph_view(content: PageContent, view: ElementView | None = None) -> Markup:
    """Return the graph of a pipeline.

    Args:
        content: What the page shows.
        view: Renders sample elements; None for rows without details.
    """
    rows = lay_out(content.nodes, content.bottleneck)
    lanes = 1 + max((max((row.lane, *row.merging, *row.passing)) for row in rows), default=0)
    by_id = {node.id: node for node in content.nodes}
    items = [_row(row, by_id[row.node], by_id, content, view) for row in rows]
    timed = content.has_timings and view is not None
    return tag(
        "div",
        _header(timed),
        tag("ol", *items, aria_label="Operations, sources first"),
        class_="graph" if timed else "graph plain",
        style=f"--lanes:{lanes}",
    )


def _header(timed: bool) -> Markup:
    names = ["Operation", "Elements"] + (["Per element", "Share of time"] if timed else [])
    cells = [tag("span", name) for name in names]
    return tag("div", *cells, class_="columns" if timed else "columns plain", aria_hidden="true")


def _row(
    row: LaneRow,
    node: PageNode,
    by_id: dict[int, PageNode],
    content: PageContent,
    view: ElementView | None,
) -> Markup:
    classes = ["row", f"lane-{row.lane}"]
    if row.left_out:
        return tag("li", _rail(row), _left_out(row, by_id, content), class_=" ".join(classes))
    if row.repeated:
        link = tag("a", tag("code", shortened(node.name, _NAME)), href=f"#node-{node.id}")
        name = tag(
            "div", _branch(row), link, tag("span", "shown above", class_="chip"), class_="name"
        )
        cells = tag("div", name, class_="cells single")
        return tag("li", _rail(row), cells, class_=" ".join([*classes, "repeated"]))
    is_bottleneck = content.bottleneck == node.id
    classes += ["source"] * (not node.parents) + ["output"] * row.ends
    classes += ["bottleneck"] * is_bottleneck
    parents = [by_id[parent].name for parent in node.parents]
    name = tag(
        "div",
        _branch(row),
        tag("code", shortened(node.name, _NAME)),
        _chips(node, content),
        tag("span", f"reads {', '.join(parents[:8])}", class_="hidden") if len(parents) > 1 else "",
        _spec(node, by_id),
        class_="name",
    )
    if view is None:
        cells = tag("div", name, _length(node), class_="cells single")
        return tag("li", _rail(row), cells, class_=" ".join(classes), id=f"node-{node.id}")
    figures = tag("div", node_figures(node, content), class_="figures", id=f"figures-{node.id}")
    details = tag(
        "details",
        tag("summary", tag("div", name, figures, class_="cells")),
        tag("div", _facts(content.measured(node.id)), _samples(node, content, view), class_="open"),
        class_="node",
        open=row.ends and bool(content.samples.get(node.id)),
    )
    return tag("li", _rail(row), details, class_=" ".join(classes), id=f"node-{node.id}")


def _spec(node: PageNode, by_id: dict[int, PageNode]) -> Markup | str:
    """Return the spec of a node, unless its elements are like those of its parents."""
    before = {by_id[parent].spec for parent in node.parents}
    if not node.spec or before == {node.spec}:
        return ""
    return tag("span", shortened(node.spec, _NAME), class_="spec")


def _branch(row: LaneRow) -> Markup | str:
    return tag("span", shortened(row.label, 40), class_="chip branch") if row.label else ""


def _chips(node: PageNode, content: PageContent) -> Markup:
    measured = content.measured(node.id)
    chips: list[object] = []
    if measured is not None and measured.location != "consumer":
        chips.append(tag("span", measured.location, class_="chip"))
    marked = content.bottleneck == node.id
    mark = tag("span", "bottleneck", class_="chip mark", id=f"mark-{node.id}", hidden=not marked)
    return join([*chips, mark] if content.has_timings else chips)


def _length(node: PageNode) -> Markup:
    text = with_separators(node.length)
    return tag("div", text, _unit("elements") if text[-1:].isdecimal() else "", class_="number")


def _unit(text: str) -> Markup:
    """Return what a figure counts: shown where there is no room for headings, and always read aloud."""
    return tag("span", f" {text}", class_="unit")


def with_separators(text: str) -> str:
    """Return a text with the thousands of its numbers separated.

    >>> with_separators("up to 16660")
    'up to 16,660'
    """
    return " ".join(f"{int(word):,}" if word.isdecimal() else word for word in text.split())


def node_figures(node: PageNode, content: PageContent) -> Markup:
    """Return the figures of a row: elements, time for each, and the share of the time."""
    measured = content.measured(node.id)
    if not content.has_timings:
        return _length(node)
    if measured is None:
        return join(
            [_length(node), tag("div", "", class_="number"), tag("div", "", class_="share")]
        )
    dropped = f"{measured.dropped_share:.0%} dropped" if measured.dropped else ""
    count = tag(
        "div",
        f"{measured.elements_out:,}",
        _unit("element" if measured.elements_out == 1 else "elements"),
        tag("small", dropped) if dropped else "",
        class_="number",
    )
    each = measured.self_seconds / measured.elements_out if measured.elements_out else 0.0
    share = content.share(node.id)
    meter = tag(
        "div", tag("i", style=f"width:{100 * share:.1f}%"), class_="meter", aria_hidden="true"
    )
    return join(
        [
            count,
            tag("div", seconds_text(each), _unit("per element"), class_="number"),
            tag(
                "div",
                tag("span", percent(share), class_="percent"),
                _unit("of the time"),
                meter,
                class_="share",
            ),
        ]
    )


def percent(share: float) -> str:
    """Return a share as text; a small one is not shown as none at all.

    >>> percent(0.5), percent(0.004), percent(0)
    ('50%', '<1%', '0%')
    """
    return "<1%" if 0 < share < 0.005 else f"{share:.0%}"


def _facts(measured: NodeStatistics | None) -> Markup | str:
    if measured is None:
        return ""
    facts = [("own time", seconds_text(measured.self_seconds))]
    if measured.cpu_seconds is not None:
        facts.append(("processor time", seconds_text(measured.cpu_seconds)))
    if measured.wait_for_parent_seconds:
        facts.append(("waits for input", seconds_text(measured.wait_for_parent_seconds)))
    if measured.wait_for_consumer_seconds:
        facts.append(("results wait", seconds_text(measured.wait_for_consumer_seconds)))
    if measured.elements_in:
        facts.append(("elements in", f"{measured.elements_in:,}"))
    if measured.dropped:
        facts.append(("dropped", f"{measured.dropped:,}"))
    if measured.bytes_out:
        facts.append(("output", bytes_text(measured.bytes_out)))
    if measured.queue is not None and measured.queue.samples:
        of = "" if measured.queue.capacity is None else f" of {measured.queue.capacity}"
        facts.append(("ready on average", f"{measured.queue.mean_occupancy:.1f}{of}"))
    pairs = [tag("div", tag("dt", name), tag("dd", value)) for name, value in facts]
    return tag("dl", *pairs, class_="facts", id=f"facts-{measured.id}")


def _samples(node: PageNode, content: PageContent, view: ElementView) -> Markup:
    samples = content.samples.get(node.id, ())
    if not samples:
        return tag("small", "No sample elements." if content.samples else "")
    return tag("div", *(_sample(sample, view) for sample in samples), class_="samples")


def _sample(sample: Sample, view: ElementView) -> Markup:
    if sample.error:
        body: Markup = tag("p", sample.error, class_="problem")
    else:
        body = view.render(sample.element)
    return tag("article", tag("h3", f"element {sample.position:,}"), body, class_="sample")


def _left_out(row: LaneRow, by_id: dict[int, PageNode], content: PageContent) -> Markup:
    shown = [by_id[number] for number in row.left_out[:_MOST_LISTED]]
    names = [
        tag(
            "li",
            tag("code", shortened(node.name, _MOST_NAMES)),
            " ",
            tag("small", _brief(node, content)),
        )
        for node in shown
    ]
    more = len(row.left_out) - len(shown)
    if more:
        names.append(tag("li", tag("small", f"… {more:,} more")))
    text = f"{counted(len(row.left_out), 'operation')} of further branches"
    summary = tag(
        "summary", tag("div", tag("div", tag("code", text), class_="name"), class_="cells")
    )
    inner = tag("div", tag("ol", *names, class_="items"), class_="open")
    return tag("details", summary, inner, class_="node")


def _brief(node: PageNode, content: PageContent) -> str:
    measured = content.measured(node.id)
    if measured is None:
        return node.length
    return f"{seconds_text(measured.self_seconds)}, {percent(content.share(node.id))}"


def _rail(row: LaneRow) -> Markup:
    """Return the lines of a row: those that pass by, those that merge, its own, and its dot."""
    parts: list[object] = [_line(lane, "") for lane in row.passing]
    if not row.starts:
        parts.append(_line(row.lane, "upper"))
    if not row.ends:
        parts.append(_line(row.lane, "lower"))
    if row.merging:
        curves = [_curve(lane, row.lane) for lane in row.merging]
        parts.append(tag("svg", *curves, width=_LANE * (1 + max(row.merging))))
    parts.append(tag("b", class_=f"lane-{row.lane}", style=f"--lane:{row.lane}"))
    return tag("div", *parts, class_="rail", aria_hidden="true")


def _line(lane: int, kind: str) -> Markup:
    return tag("i", class_=f"{kind} lane-{lane}".strip(), style=f"--lane:{lane}")


def _curve(start: int, end: int) -> Markup:
    x, to = _LANE * start + 9, _LANE * end + 9
    path = f"M{x} 0C{x} 14 {(x + to) // 2} 22 {to} 22"
    return tag("path", d=path, class_=f"lane-{start}")
