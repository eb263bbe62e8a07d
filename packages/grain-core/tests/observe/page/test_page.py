"""`ds.visualize()` and the notebook's view of datasets: one HTML file, escaped, and the same as text."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import grain
from grain.observe.page.content import PageContent, Sample
from grain.observe.page.document import document, live_parts, resource, shape_of
from grain.observe.page.page_graph import PageNode, graph_of_statistics
from grain.observe.page.text_view import text_view
from grain.observe.statistics import PipelineStatistics

from ..sample_statistics import sample_statistics
from .test_markup import HOSTILE, Tags


def decode(x):
    return {"image": np.full((16, 16, 3), x, np.uint8), "label": x}


def pipeline():
    a = grain.MapDataset.range(20).shuffle(seed=1).map(decode)
    b = grain.MapDataset.range(10).map(decode)
    return grain.MapDataset.mix({"web": a, "code": b}, {"web": 2, "code": 1}).batch(4)


def measured_page(**changes) -> PageContent:
    stats = sample_statistics(**changes)
    return PageContent(nodes=graph_of_statistics(stats), title=stats.name, statistics=stats)


def test_a_page_is_one_document_without_scripts_and_without_network():
    page = pipeline().visualize(measure=False)
    parsed = Tags(page.html)
    assert not {"script", "link", "iframe", "object", "embed", "base", "form"} & set(parsed.tags)
    for name, value in parsed.attributes:
        if name in ("src", "href"):
            assert value.startswith(("data:image/", "#"))
    assert "http" not in page.html.replace("http-equiv", "")
    policy = dict(a for a in parsed.attributes if a[0] == "content" and "default" in a[1])
    assert policy["content"] == "default-src 'none'; img-src data:; style-src 'unsafe-inline'"


def test_a_page_has_landmarks_headings_a_language_and_a_title():
    parsed = Tags(document(measured_page()))
    for tag in ("main", "header", "section", "footer", "h1", "h2", "title"):
        assert tag in parsed.tags
    assert parsed.tags.count("h1") == parsed.tags.count("main") == 1
    assert ("lang", "en") in parsed.attributes
    assert ("name", "viewport") in parsed.attributes
    assert parsed.tags.count("img") == sum(name == "alt" for name, _ in parsed.attributes)
    identifiers = [value for name, value in parsed.attributes if name == "id"]
    assert len(identifiers) == len(set(identifiers))
    labelled = [value for name, value in parsed.attributes if name == "aria-labelledby"]
    assert set(labelled) <= set(identifiers)
    links = {value[1:] for name, value in parsed.attributes if name == "href"}
    assert links <= set(identifiers)


def test_the_verdict_the_figures_and_the_bottleneck_are_shown():
    content = measured_page()
    text = Tags(document(content)).text
    stats = content.statistics
    assert stats.verdict.sentence.replace("`", "") in text
    for node in stats.nodes:
        assert node.name in text
    for part in (
        "87%",
        "51 ms",
        "110 ms",
        "160 ms",
        "700 ms",
        "worker 1",
        "1 restart",
        "20% dropped",
    ):
        assert part in text
    assert content.bottleneck == 2
    assert 'class="row lane-0 bottleneck" id="node-2"' in document(content)


def test_figures_are_named_where_headings_are_not_shown_or_read_aloud():
    text = Tags(document(measured_page())).text
    for figure in ("6,400 elements", "2.72 ms per element", "91% of the time"):
        assert figure in text
    assert "20 elements" in Tags(pipeline()._repr_html_()).text
    style = resource("style.css")
    hidden, phone = style.index(".grain .hidden, .grain .unit {"), style.index("max-width: 720px")
    assert hidden < phone < style.index(".grain .unit { position: static;")


def test_only_the_bottleneck_is_marked():
    text = document(measured_page())
    assert text.count('class="chip mark"') == 6
    assert text.count('class="chip mark" id="mark-2"></span>') == 0
    assert text.count(" hidden>bottleneck") == 5


def test_a_fast_pipeline_has_no_bottleneck():
    content = measured_page(consumer_busy_seconds=1000.0)
    assert content.bottleneck is None
    assert 'class="verdict"' in document(content)


def test_statistics_of_nothing_and_of_unknown_nodes_make_a_page():
    empty = PipelineStatistics()
    for content in (
        PageContent(nodes=()),
        PageContent(nodes=(), statistics=empty),
        PageContent(nodes=(PageNode(id=0, name="a"),), statistics=empty),
        PageContent(nodes=(PageNode(id=9, name="a"),), statistics=sample_statistics()),
    ):
        assert "</html>" in document(content)
        assert isinstance(text_view(content), str)


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_names_titles_errors_and_verdicts_are_text(text):
    stats = sample_statistics()
    nodes = tuple(
        dataclasses.replace(node, name=text, function=text, spec=text, location=text)
        for node in stats.nodes
    )
    stats = dataclasses.replace(stats, nodes=nodes, name=text, executor=text)
    stats = dataclasses.replace(
        stats, spans=tuple(span._replace(track=text) for span in stats.spans)
    )
    content = PageContent(
        nodes=(
            *graph_of_statistics(stats),
            PageNode(id=99, name=text, parents=(5, 4), labels=(text, text), length=text),
        ),
        title=text,
        statistics=stats,
        samples={0: (Sample(0, text), Sample(1, error=text))},
        note=text,
    )
    for page in (document(content), *live_parts(content).values()):
        parsed = Tags(page)
        assert not {"script", "iframe"} & set(parsed.tags)
        assert "img" not in parsed.tags
        assert not [name for name, _ in parsed.attributes if name.startswith("on")]


def test_control_characters_do_not_reach_a_page_or_a_terminal():
    text = "a\x1b[31m\u202e\x00b"
    content = PageContent(
        nodes=(PageNode(id=0, name=text, spec=text),), title=text, samples={0: (Sample(0, text),)}
    )
    for shown in (document(content), text_view(content)):
        assert not {"\x1b", "\u202e", "\x00"} & set(shown)


def test_samples_of_each_node_are_shown_and_the_output_is_open():
    page = pipeline().visualize(measure=False)
    parsed = Tags(page.html)
    assert parsed.tags.count("img") > 10
    assert parsed.tags.count("details") == len(page.content.nodes)
    assert parsed.attributes.count(("open", None)) == 1
    assert "{'image': uint8[16, 16, 3], 'label': int}" in parsed.text


def test_a_page_is_written_to_a_file_at_once(tmp_path):
    file = tmp_path / "page.html"
    file.write_text("before")
    page = pipeline().visualize(file, measure=False)
    assert page.path == file
    assert file.read_text(encoding="utf-8") == page.html
    assert [each.name for each in tmp_path.iterdir()] == ["page.html"]
    assert str(file) in repr(page)


def test_a_path_that_cannot_be_written_is_an_error_that_names_it(tmp_path):
    ds = grain.MapDataset.range(3)
    with pytest.raises(IsADirectoryError, match=r"is a folder.*pipeline\.html"):
        ds.visualize(tmp_path, measure=False)
    with pytest.raises(FileNotFoundError, match="does not exist"):
        ds.visualize(tmp_path / "no" / "page.html", measure=False)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"samples": -1}, ValueError, "samples"),
        ({"samples": 1.5}, TypeError, "samples"),
        ({"max_seconds": 0}, ValueError, "max_seconds must be positive"),
        ({"max_seconds": float("nan")}, ValueError, "max_seconds must be positive"),
        ({"max_seconds": "1"}, TypeError, "max_seconds must be a number"),
        ({"statistics": {}}, TypeError, r"iterator\.stats\(\)"),
    ],
)
def test_wrong_options_are_refused(options, error, message):
    with pytest.raises(error, match=message):
        grain.MapDataset.range(3).visualize(**options)


def test_a_notebook_shows_the_page_in_a_frame_that_runs_nothing():
    page = grain.MapDataset.range(3).visualize(measure=False)
    parsed = Tags(page._repr_html_())
    attributes = dict(parsed.attributes)
    assert parsed.tags == ["iframe"]
    assert attributes["sandbox"] == ""
    assert attributes["srcdoc"] == page.html


def test_a_notebook_shows_the_graph_of_a_dataset_and_reads_nothing():
    class Unreadable:
        def __len__(self):
            return 5

        def __getitem__(self, index):
            raise AssertionError("read")

    ds = grain.MapDataset.source(Unreadable()).shuffle(seed=1).map(decode).batch(2)
    text = Tags(ds._repr_html_()).text
    for part in ("source(", "shuffle(seed=1)", "map(decode)", "batch(2)", "3"):
        assert part in text
    assert "script" not in Tags(ds._repr_html_()).tags


def test_a_dataset_that_cannot_be_drawn_falls_back_to_its_repr():
    class Broken(grain.MapDataset):
        @property
        def parents(self):
            raise RuntimeError("no parents")

        def __len__(self):
            return 1

        def __getitem__(self, index):
            return 1

    assert Broken()._repr_html_() is None


def test_the_text_has_the_graph_the_figures_and_the_first_elements():
    text = str(pipeline().visualize(measure=False))
    assert "●    web: range(20)" in text or "●    code: range(10)" in text
    assert "├─╯" in text
    assert "first elements:" in text
    text = text_view(measured_page())
    verdict = sample_statistics().verdict.sentence
    assert " ".join(text.splitlines()).startswith(verdict)
    assert "<- bottleneck" in text
    assert "p95 110 ms" in text


def test_lines_of_text_are_no_longer_than_the_width():
    assert max(map(len, text_view(measured_page(), width=60).splitlines())) <= 60


def test_live_parts_replace_elements_of_the_page():
    content = measured_page()
    parts = live_parts(content)
    identifiers = [value for name, value in Tags(document(content)).attributes if name == "id"]
    assert set(parts) <= set(identifiers)
    assert live_parts(PageContent(nodes=())) == {}


def test_the_shape_changes_with_the_nodes_and_not_with_the_figures():
    content = measured_page()
    later = measured_page(elements=1000, elapsed_seconds=99.0)
    other = dataclasses.replace(content, nodes=content.nodes[:-1])
    assert shape_of(content) == shape_of(later) != shape_of(other)


def test_names_between_backticks_are_code():
    assert "<p><code>decode</code> takes" in document(measured_page())
