"""The cost of observation: measured, stored and reported."""

from __future__ import annotations

import itertools

import pytest
from benchmarks import observation_cost, observation_report
from benchmarks.observation_report import ObservationCost

FOUND = [
    ObservationCost(
        case="map_elements", summary="map", limit=0.15, off=(1.0, 2.0, 1.0), on=(1.1, 2.1, 1.0)
    )
]


def test_the_cost_is_the_median_of_the_repetitions():
    assert FOUND[0].cost == pytest.approx(0.05)
    assert observation_report.line(FOUND[0]) == (
        "| `map_elements` | map | +5.0 % (+0.0 to +10.0) | 15 % |"
    )


def test_costs_are_reported_and_read_as_they_were_written(tmp_path):
    path = tmp_path / "observation.json"
    observation_report.write(FOUND, {"processor": "one"}, path)
    assert observation_report.read(path) == FOUND
    assert "`map_elements`" in observation_report.section(FOUND)
    assert observation_report.section(observation_report.read(tmp_path / "missing")) == ""


@pytest.mark.parametrize("name", ["shuffle_map_batch", "pack_first_fit"])
def test_both_runs_of_a_repetition_are_measured(name, monkeypatch):
    clock = map(float, itertools.count())
    small = observation_cost.PIPELINES[name].__class__("", 0.0, observation_cost.documents, 3)
    monkeypatch.setitem(observation_cost.PIPELINES, name, small)
    found = observation_cost.compare(name, 2, lambda: next(clock))
    assert found.off == found.on == (1.0, 1.0)


def test_an_unknown_case_is_refused(capsys):
    with pytest.raises(SystemExit):
        observation_cost.main(["--cases", "nothing"])
    assert "unknown cases ['nothing']" in capsys.readouterr().err
