"""The page of a pipeline: one HTML file that needs no network, no script and no other file."""

from __future__ import annotations

import importlib.resources
import zlib

from grain.observe.page.content import PageContent
from grain.observe.page.element_view import ElementView
from grain.observe.page.graph_view import graph_view, node_figures, percent
from grain.observe.page.markup import Markup, escape, join, tag
from grain.observe.page.preview import counted, shortened
from grain.observe.page.time_views import consumer_view, has_tracks, workers_view
from grain.observe.statistics import PipelineStatistics
from grain.observe.statistics_table import bytes_text, has_rate, seconds_text
from grain.version import __version__

# Even if data could break out of its element, a browser would load and run nothing.
_POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"
_CONSUMER_LEAD = "How long the consumer waits in next(), after the warm-up."
_LIVE_POLICY = f"{_POLICY}; connect-src 'self'; script-src 'nonce-{{nonce}}'"


def resource(name: str) -> str:
    """Return the text of a file of this package."""
    return importlib.resources.files(__package__).joinpath(name).read_text(encoding="utf-8")


def document(
    content: PageContent,
    *,
    live_nonce: str | None = None,
    live_shape: str | None = None,
    links: Markup | str = "",
) -> str:
    """Return a whole page.

    Args:
        content: What the page shows.
        live_nonce: The nonce of the script that keeps the page up to date; None for a page without
            script.
        live_shape: A text that changes when the page has to be loaded again.
        links: Links to the pages of other pipelines.
    """
    policy = _POLICY if live_nonce is None else _LIVE_POLICY.format(nonce=live_nonce)
    head = join(
        [
            tag("meta", charset="utf-8"),
            tag("meta", http_equiv="Content-Security-Policy", content=policy),
            tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
            tag("meta", name="color-scheme", content="light dark"),
            tag("meta", name="referrer", content="no-referrer"),
            tag("title", f"{shortened(content.title)} · grain"),
            tag("style", Markup(resource("style.css"))),
        ]
    )
    live = live_nonce is not None
    script: Markup | str = ""
    if live_nonce is not None:
        script = tag("script", Markup(resource("live.js")), nonce=live_nonce)
    body = tag(
        "body",
        _skip_link(),
        tag("main", *_main(content, live, links)),
        script,
        class_="grain",
        data_shape=live_shape,
    )
    return f"<!doctype html>\n{tag('html', tag('head', head), body, lang='en')}\n"


def fragment(content: PageContent) -> str:
    """Return the graph alone, as a notebook shows it below a cell."""
    style = tag("style", Markup(resource("style.css")))
    return tag("div", style, graph_view(content), class_="grain fragment")


def live_parts(content: PageContent) -> dict[str, str]:
    """Return the HTML of the parts of a page that change, by the id of the element they are in."""
    stats = content.statistics
    if stats is None:
        return {}
    parts: dict[str, str] = {
        "verdict": _verdict(content),
        "tiles": _tiles(stats),
        "consumer": consumer_view(stats),
        "workers": workers_view(stats),
    }
    return parts | {f"figures-{node.id}": node_figures(node, content) for node in content.nodes}


def shape_of(content: PageContent) -> str:
    """Return a short text that changes when the parts of a page do not fit any more."""
    names = [(node.id, node.name, node.parents) for node in content.nodes]
    return f"{zlib.crc32(repr((content.title, names)).encode('utf-8', 'replace')):08x}"


def _skip_link() -> Markup:
    return tag("a", "Skip to the pipeline", href="#pipeline", class_="skip")


def _main(content: PageContent, live: bool, links: Markup | str) -> list[object]:
    stats = content.statistics
    parts: list[object] = [_head(content, live), links]
    if stats is not None:
        limited = content.bottleneck is not None
        kind = "verdict limited" if limited else "verdict"
        status = "polite" if live else None
        parts.append(
            tag(
                "section",
                _verdict(content),
                class_=kind,
                id="verdict",
                aria_live=status,
                aria_label="Verdict",
            )
        )
        parts.append(tag("dl", _tiles(stats), class_="tiles", id="tiles"))
    graph = graph_view(content, ElementView())
    parts.append(_section("pipeline", "Pipeline", _lead(content), graph))
    if stats is not None:
        view = tag("div", consumer_view(stats), class_="panel", id="consumer")
        parts.append(_section("waiting", "Consumer", _CONSUMER_LEAD, view))
        if live or has_tracks(stats):
            view = tag("div", workers_view(stats), class_="panel", id="workers")
            parts.append(_section("timeline", "Threads and workers", "", view))
    parts.append(tag("footer", f"Made by grain {__version__}. {content.note}".strip()))
    return parts


def _section(number: str, title: str, lead: str, body: Markup) -> Markup:
    heading = tag("h2", title, id=f"{number}-title")
    text = tag("p", lead, class_="lead") if lead else ""
    return tag(
        "section", heading, text, body, class_="part", id=number, aria_labelledby=f"{number}-title"
    )


def _head(content: PageContent, live: bool) -> Markup:
    stats = content.statistics
    texts = [counted(len(content.nodes), "operation")]
    if stats is not None:
        texts.append(f"executor: {stats.executor}")
    return tag(
        "header",
        tag("h1", shortened(content.title)),
        tag("p", " · ".join(texts)),
        tag("span", "live", class_="state", id="state", role="status") if live else "",
        class_="top",
    )


def _lead(content: PageContent) -> str:
    if content.samples:
        return "Sources first. Open an operation to see its elements."
    return "Sources first."


def _verdict(content: PageContent) -> Markup:
    verdict = content.verdict
    first = tag("p", _with_code(verdict.sentence))
    if verdict.advice and verdict.advice not in verdict.sentence:
        return join([first, tag("p", _with_code(verdict.advice))])
    return first


def _with_code(sentence: str) -> Markup:
    """Return a sentence in which names between backticks are code."""
    parts = sentence.split("`")
    if len(parts) % 2 == 0:
        return escape(sentence)
    return join(tag("code", part) if number % 2 else part for number, part in enumerate(parts))


def _tiles(stats: PipelineStatistics) -> Markup:
    rate = stats.throughput
    tiles = [
        ("throughput", f"{rate:,.4g}" if rate < 1000 else f"{rate:,.0f}", "elements/s")
        if has_rate(stats)
        else ("throughput", "unknown", "too few elements"),
        ("the consumer waits", percent(stats.wait_share), "of its time"),
        ("wait p95", seconds_text(stats.wait.p95), ""),
        ("elements", f"{stats.elements:,}", f"in {seconds_text(stats.elapsed_seconds)}"),
    ]
    if stats.bytes:
        tiles.append(("data", bytes_text(stats.bytes), ""))
    return join(
        tag("div", tag("dt", name), tag("dd", value, tag("small", unit) if unit else ""))
        for name, value, unit in tiles
    )
