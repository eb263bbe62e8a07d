"""The page in a real browser: layout, colours, keyboard, hostile contents, and live updates.

Run by `nox -s browser`, where a Chromium is installed.
"""

from __future__ import annotations

import dataclasses
import os
import pathlib

import numpy as np
import pytest

import grain
from grain.observe.page.content import PageContent, Sample
from grain.observe.page.document import document
from grain.observe.page.live_server import LiveServer
from grain.observe.page.page_graph import PageNode
from grain.observe.page.presentation import page_of_statistics
from grain.observe.statistics import NodeStatistics, PipelineStatistics, Span, WaitStatistics

from .chromium import Tab, chromium, find

BROWSER = find()
pytestmark = [
    pytest.mark.skipif(
        os.environ.get("GRAIN_BROWSER") != "1", reason="runs in its own session: GRAIN_BROWSER=1"
    ),
    pytest.mark.skipif(BROWSER is None, reason="needs Chromium"),
]
WIDTHS = [390, 768, 1400]
HOSTILE = (
    "<script>window.attacked=1</script><img src=x onerror='window.attacked=1'>\"'>"
    "<svg onload=window.attacked=1>\u202e"
)


@pytest.fixture(scope="module")
def tab():
    with chromium(BROWSER) as tab:
        yield tab


def decode(x):
    return {"image": np.full((24, 32, 3), x % 255, np.uint8), "name": "some words " * 9}


def pipeline():
    a = grain.MapDataset.range(500).shuffle(seed=1).map(decode)
    b = grain.MapDataset.range(90).map(decode)
    parts = {f"part {i}": b.shuffle(seed=i) for i in range(9)}
    mixed = grain.MapDataset.mix({"web": a, **parts}, {"web": 5, **dict.fromkeys(parts, 1)})
    return mixed.to_iter_dataset().batch(8)


def statistics(elements: int = 100, slow: int = 1) -> PipelineStatistics:
    nodes = tuple(
        NodeStatistics(
            id=number,
            operation="map" if number else "source",
            name=f"map(function_{number})" if number else "source(files)",
            function=f"function_{number}" if number else None,
            parents=(number - 1,) if number else (),
            elements_out=elements,
            self_seconds=5.0 if number == slow else 0.5,
        )
        for number in range(4)
    )
    return PipelineStatistics(
        nodes=nodes,
        elements=elements,
        elapsed_seconds=7.0,
        wait=WaitStatistics(count=elements, total_seconds=6.0, p50=0.01, p95=0.02, p99=0.03),
        consumer_busy_seconds=0.5,
        spans=(Span("consumer", 1, 0.0, 1.0, 1), Span("thread 0", 2, 0.5, 2.0, 1)),
        name="train",
    )


def opened(tab: Tab, content: PageContent, folder: pathlib.Path, **shown) -> None:
    file = folder / "page.html"
    file.write_text(document(content), encoding="utf-8")
    tab.show(**{"width": 1400} | shown)
    tab.open(file.as_uri())


def full_content() -> PageContent:
    content = pipeline().visualize(max_seconds=1).content
    failed = {0: (Sample(0, error="ValueError: what a function raised"),)}
    return dataclasses.replace(content, samples=dict(content.samples) | failed)


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", WIDTHS)
def test_the_page_fits_the_width_and_has_no_problems(tab, tmp_path, width, dark):
    opened(tab, full_content(), tmp_path, width=width, dark=dark)
    tab.evaluate("document.querySelectorAll('details').forEach(d => { d.open = true })")
    size = tab.evaluate("[document.documentElement.scrollWidth, innerWidth]")
    assert size[0] <= size[1] == width
    assert tab.problems() == []
    assert all(url.startswith("file:") for url in tab.requests())
    assert tab.evaluate(
        "[...document.images].every(i => i.complete && i.naturalWidth > 0 && i.alt)"
    )


CONTRAST = """(() => {
  const channels = c => c.match(/[\\d.]+/g).map(Number);
  const light = c => { const f = c.slice(0, 3).map(v => v / 255)
      .map(v => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * f[0] + 0.7152 * f[1] + 0.0722 * f[2]; };
  const back = e => { for (; e; e = e.parentElement) {
      const c = channels(getComputedStyle(e).backgroundColor);
      if (c.length < 4 || c[3] === 1) return c; } return [255, 255, 255]; };
  const low = [];
  for (const e of document.querySelectorAll('.grain *')) {
    const own = [...e.childNodes].some(n => n.nodeType === 3 && n.textContent.trim());
    if (!own || !e.checkVisibility() || e.closest('svg, style, .hidden, .skip')) continue;
    const a = light(channels(getComputedStyle(e).color)), b = light(back(e));
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < 4.5) low.push(`${e.className || e.tagName}: ${ratio.toFixed(2)} ${e.textContent}`);
  }
  return low;
})()"""


@pytest.mark.parametrize("dark", [False, True])
def test_all_text_has_enough_contrast(tab, tmp_path, dark):
    opened(tab, full_content(), tmp_path, dark=dark)
    tab.evaluate("document.querySelectorAll('details').forEach(d => { d.open = true })")
    assert tab.evaluate(CONTRAST) == []


def test_operations_open_by_the_keyboard(tab, tmp_path):
    opened(tab, full_content(), tmp_path)
    tab.press("Tab", 9)
    assert tab.evaluate("document.activeElement.textContent") == "Skip to the pipeline"
    tab.press("Tab", 9)
    assert tab.evaluate("document.activeElement.tagName") == "SUMMARY"
    before = tab.evaluate("document.activeElement.parentElement.open")
    tab.press("Enter", 13, "\r")
    assert tab.evaluate("document.activeElement.parentElement.open") is not before
    tab.press("Enter", 13, "\r")
    assert tab.evaluate("document.activeElement.parentElement.open") is before


def test_the_accessibility_tree_has_landmarks_headings_and_names(tab, tmp_path):
    opened(tab, full_content(), tmp_path)
    nodes = tab.send("Accessibility.getFullAXTree")["nodes"]
    roles: dict[str, list[str]] = {}
    for node in nodes:
        role = node.get("role", {}).get("value", "")
        roles.setdefault(role, []).append(node.get("name", {}).get("value", ""))
    assert len(roles["main"]) == 1
    assert {"Pipeline", "Consumer"} <= set(roles["heading"])
    assert "Operations, sources first" in roles["list"]
    assert all(roles.get("image", ["x"]))
    assert all(roles["DisclosureTriangle"])


def test_hostile_contents_run_nothing(tab, tmp_path):
    stats = statistics()
    nodes = tuple(dataclasses.replace(n, name=HOSTILE, function=HOSTILE) for n in stats.nodes)
    stats = dataclasses.replace(stats, nodes=nodes, name=HOSTILE, executor=HOSTILE)
    content = PageContent(
        nodes=tuple(
            PageNode(id=n.id, name=HOSTILE, parents=n.parents, spec=HOSTILE, length=HOSTILE)
            for n in nodes
        ),
        title=HOSTILE,
        statistics=stats,
        samples={
            3: (
                Sample(0, {HOSTILE: HOSTILE, "b": HOSTILE.encode(), "c": np.array([HOSTILE] * 2)}),
                Sample(1, error=HOSTILE),
            )
        },
        note=HOSTILE,
    )
    opened(tab, content, tmp_path)
    assert tab.evaluate("window.attacked") is None
    assert tab.evaluate("document.scripts.length") == 0
    assert tab.problems() == []
    with LiveServer(lambda: [content]) as server:
        tab.open(server.url)
        tab.wait_for("document.getElementById('state').textContent === 'live'")
        assert tab.evaluate("window.attacked") is None
        assert tab.evaluate("document.scripts.length") == 1


def test_a_script_in_a_page_would_not_run(tab, tmp_path):
    page = document(full_content()).replace("</main>", "<script>window.attacked=1</script></main>")
    file = tmp_path / "page.html"
    file.write_text(page, encoding="utf-8")
    tab.open(file.as_uri())
    assert tab.evaluate("document.scripts.length") == 1
    assert tab.evaluate("window.attacked") is None


def test_a_live_page_follows_the_pipeline_and_keeps_what_is_open(tab):
    shown = [page_of_statistics(statistics(100, slow=1))]
    with LiveServer(lambda: shown[:1]) as server:
        tab.show(width=1400)
        tab.open(server.url)
        tab.wait_for("document.getElementById('tiles').textContent.includes('100')")
        tab.wait_for("document.querySelector('.bottleneck').id === 'node-1'")
        tab.evaluate("document.querySelector('#node-2 details').open = true")
        shown[:] = [page_of_statistics(statistics(98765, slow=2))]
        tab.wait_for("document.getElementById('tiles').textContent.includes('98,765')")
        tab.wait_for("document.querySelector('.bottleneck').id === 'node-2'")
        assert tab.evaluate("document.querySelectorAll('.bottleneck').length") == 1
        assert tab.evaluate("document.querySelector('#node-2 details').open")
        assert tab.evaluate("document.getElementById('figures-2').textContent.includes('98,765')")
        server.end()
        tab.wait_for("document.getElementById('state').textContent === 'ended'")
        assert tab.problems() == []
    tab.wait_for("document.getElementById('state').textContent === 'disconnected'")


def test_a_live_page_is_loaded_again_when_the_pipeline_changes(tab):
    shown = [page_of_statistics(statistics())]
    with LiveServer(lambda: list(shown)) as server:
        tab.open(server.url)
        tab.wait_for("document.getElementById('state').textContent === 'live'")
        shown.append(page_of_statistics(dataclasses.replace(statistics(), name="evaluation")))
        tab.wait_for("document.querySelector('h1')?.textContent === 'evaluation'")
        assert tab.evaluate("document.querySelectorAll('nav a').length") == 2


def test_another_site_cannot_read_a_live_page(tab, tmp_path):
    with LiveServer(lambda: [page_of_statistics(statistics())]) as server:
        (tmp_path / "other.html").write_text("<title>another site</title>")
        tab.open((tmp_path / "other.html").as_uri())
        answer = tab.evaluate(
            f"fetch('{server.url}data.json').then(r => r.text()).catch(() => 'blocked')"
        )
        assert answer == "blocked"
        loaded = tab.evaluate(
            "new Promise(done => { const f = document.createElement('iframe');"
            f" f.src = '{server.url}'; f.onload = () => {{ try {{"
            " done(f.contentDocument === null ? 'blocked' : 'read') }"
            " catch { done('blocked') } }; document.body.append(f) })"
        )
        assert loaded == "blocked"


def test_the_frame_of_a_notebook_shows_the_page(tab, tmp_path):
    page = pipeline().visualize(measure=False)
    fragment = pipeline()._repr_html_()
    file = tmp_path / "notebook.html"
    file.write_text(
        f"<!doctype html><meta charset=utf-8><body>{page._repr_html_()}{fragment}</body>",
        encoding="utf-8",
    )
    tab.show(width=1000)
    tab.open(file.as_uri())
    assert tab.evaluate("document.querySelector('iframe').getBoundingClientRect().height") > 500
    assert tab.evaluate("document.querySelectorAll('.grain.fragment .row').length") > 5
    assert tab.problems() == []
