"""Statistics as flat numbers for experiment trackers, and as google/grain's table."""

from __future__ import annotations

import math

import pytest

from grain.observe.exports import execution_summary
from grain.observe.exports.span_times import times_per_element
from grain.observe.exports.summary_table import summary_message
from grain.observe.statistics import NodeStatistics, PipelineStatistics, Span

from ..sample_statistics import sample_statistics


def test_all_values_are_finite_numbers_with_the_prefix():
    found = sample_statistics(setup_seconds=math.inf).to_metrics(prefix="input/")
    assert all(name.startswith("input/") for name in found)
    assert all(type(value) is float and math.isfinite(value) for value in found.values())
    assert found["input/wait_share"] == pytest.approx(0.87)
    assert found["input/node/2_decode/self_seconds"] == 17.4
    assert found["input/node/5_batch/queue_fill"] == pytest.approx(0.075)
    assert found["input/process/1/restarts"] == 1
    assert "input/setup_seconds" not in found


def test_an_empty_pipeline_has_figures_too():
    found = PipelineStatistics().to_metrics()
    assert found["data/elements"] == 0
    assert found["data/throughput"] == 0


def rows_of(table):
    lines = [line for line in table.splitlines() if not line.startswith("|--")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_the_table_has_the_columns_and_units_of_google_grain():
    heading, *rows = rows_of(execution_summary(sample_statistics()))
    assert heading == [
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
    ]
    by_id = {row[0]: row for row in rows if row[0]}
    assert rows[0][0] == "2"  # The node that takes most of the time comes first.
    assert by_id["2"][2:5] == ["[1]", "94.41%", "17.40s"]
    assert by_id["2"][7:9] == ["2.72ms", "6400"]
    assert by_id["5"][3] == "N/A"  # It prefetches; its time is that of the nodes below.
    assert rows[-1][0] == "5" or rows[-1][0] == ""
    assert by_id["5"][9] == "2.75 MiB"


def test_all_lines_of_the_table_have_one_width_and_no_control_characters():
    name = "map(transform=a_function_with_a_long_name @ .../a/file.py:12)\x1b[31m\n"
    spans = (Span("consumer", 0, 0.0, 4e-7, 2), Span("consumer", 0, 1.0, 3.0, 1))
    nodes = (
        NodeStatistics(id=0, operation="source", name=""),
        NodeStatistics(id=1, operation="map", name=name, parents=(0,), self_seconds=1e-7),
    )
    table = execution_summary(PipelineStatistics(nodes=nodes, spans=spans))
    assert len({len(line) for line in table.splitlines()}) == 1
    assert table.replace("\n", "").isprintable()
    assert "200ns" in table
    assert "3.00s" in table


def test_the_message_ends_with_the_verdict():
    stats = sample_statistics()
    message = summary_message(stats)
    assert message.startswith("Grain Dataset Execution Summary:\n\ntrain: ")
    assert message.endswith(str(stats.verdict))
    assert summary_message(PipelineStatistics())


def test_the_own_time_of_a_span_is_without_those_inside_of_it():
    spans = [
        Span("consumer", 2, 0.0, 10.0, 1),
        Span("consumer", 1, 1.0, 4.0, 4),  # Inside of the first, with one inside of it.
        Span("consumer", 0, 2.0, 2.0, 4),
        Span("consumer", 1, 6.0, 2.0, 1),
        Span("worker 0", 2, 1.0, 3.0, 1),  # Another track.
        Span("worker 0", 2, 9.0, 1.0, 0),  # The end.
    ]
    assert times_per_element(spans) == {2: (3.0, 4.0), 1: (0.5, 2.0), 0: (0.5, 0.5)}
    assert times_per_element([]) == {}
