"""The wide table: every program runs, and results are stored and reported."""

from __future__ import annotations

import dataclasses
import math

import pytest
from benchmarks.wide import __main__ as command
from benchmarks.wide import measure, report
from benchmarks.wide.case import Kind
from benchmarks.wide.report import WideResult

INLINE = [
    program.name
    for program in measure.PROGRAMS.values()
    if program.kind is not Kind.PEAK
    and program.group != "Worker processes"
    and "_2_" not in program.name
]


def test_names_of_programs_differ():
    assert len(measure.PROGRAMS) == sum(len(found.programs) for found in measure.COLLECTIONS)


@pytest.mark.parametrize("name", INLINE)
def test_every_program_and_its_loop_have_a_rate(name):
    program = measure.PROGRAMS[name]
    found = measure.measure(program, 0.0)
    assert math.isfinite(found["value"])
    assert found["value"] > 0
    assert (found["limit"] is None) == (program.limit is None)


FASTER = WideResult(
    name="a", group="One", unit="elements/s", ours=(1e6, 2e6), theirs=(1e5,), limit=(4e6,)
)
SMALLER = WideResult(name="b", group="Two", unit="MiB", ours=(8.0, 4.0), theirs=(3.0,))
FAILED = WideResult(name="c", group="Two", unit="calls/s", ours=(5.0,), failed={"theirs": "no"})


def test_a_row_has_the_best_values_the_ratio_and_the_share_of_the_limit():
    assert report.row(FASTER) == "| `a` | 2 M elements/s | 100 000 | 20 | 4 M | 50 % |"
    assert report.row(SMALLER) == "| `b` | 4 MiB | 3 | **0.75** | — | — |"
    assert report.row(FAILED) == "| `c` | 5 calls/s | *failed* | — | — | — |"


def test_results_are_reported_and_read_as_they_were_written(tmp_path):
    found = [FASTER, SMALLER, FAILED]
    path = tmp_path / "results.json"
    path.write_text(report.to_json(found, 3, {"cores": "2"}))
    assert report.read(path) == (found, 3)
    assert report.read(tmp_path / "missing.json") == ([], 0)
    text = report.section(found, 3)
    assert "at least 5 times faster in 1 of 2, slower in 1; the median is 10." in text
    assert text.index("### One") < text.index("### Two")
    assert report.section([], 0) == ""


class Answers:
    """Answers of two libraries; the second fails."""

    def __init__(self):
        self.asked = []

    def ready(self, libraries):
        return {}

    def ask(self, library, **request):
        self.asked.append(library)
        return {"value": 2.0, "limit": 4.0} if library == "grain" else {"error": "broken"}


def test_libraries_are_measured_in_turn_and_failures_are_kept():
    answers = Answers()
    program = {"name": "a", "group": "One", "unit": "elements/s"}
    found = command.compare(answers, program, 0.1, 2)
    assert answers.asked == ["grain", "google-grain", "grain"]
    assert found == WideResult(
        **program, ours=(2.0, 2.0), limit=(4.0, 4.0), failed={"theirs": "broken"}
    )
    assert dataclasses.replace(found, ours=()).ratio is None


def test_programs_are_selected_by_pattern():
    programs = [{"name": "get_a"}, {"name": "pack"}]
    assert command.selected(["get_*"], programs) == [{"name": "get_a"}]
    assert command.selected(None, programs) == programs
