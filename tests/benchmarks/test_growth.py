"""Growth and training: measured, stored and reported."""

from __future__ import annotations

import dataclasses
import json
import math

import pytest
from benchmarks import growth, growth_report, page, train, training_report
from benchmarks.growth_report import Growth
from benchmarks.training_report import TrainingRun

SQUARE = Growth(
    axis="a",
    title="an axis",
    xlabel="things",
    unit="ns",
    points=(1, 10, 100, 1000),
    costs=(1.0, 100.0, 10_000.0, 1e6),
)


@pytest.mark.parametrize("name", [name for name in growth.BY_NAME if name != "workers"])
def test_every_axis_has_a_cost_at_its_first_point(name):
    axis = growth.BY_NAME[name]
    cost = axis.cost(axis.points[0], 0.001)
    assert math.isfinite(cost)
    assert cost > 0


def test_the_power_is_the_slope_of_the_upper_half():
    assert SQUARE.exponent == pytest.approx(2)
    late = dataclasses.replace(SQUARE, costs=(5.0, 7.0, 3.0, 3.0))
    assert late.exponent == pytest.approx(0)


def test_growth_is_read_as_it_was_written(tmp_path):
    path = tmp_path / "growth.json"
    path.write_text(growth_report.to_json([SQUARE], 3))
    assert growth_report.read(path) == [SQUARE]
    assert growth_report.read(tmp_path / "missing.json") == []


def test_the_section_and_the_plot_show_every_axis(tmp_path):
    text = growth_report.section([SQUARE], page.PLOTS)
    assert "| `a`<br>an axis | things: ns<br>1: 1, 10: 100, 100: 10000, 1000: 10^6 | 2.0 |" in text
    growth_report.draw([SQUARE], tmp_path)
    assert (tmp_path / growth_report.PICTURE).read_text().startswith("<?xml")
    assert growth_report.section([], page.PLOTS) == ""


RUNS = [
    TrainingRun(peer="grain", workers=0, steps_per_second=(10.0, 12.0), waiting=(0.1, 0.3)),
    TrainingRun(peer="datasets", workers=2, failed="has none"),
]


def test_training_is_reported_and_read_as_it_was_written(tmp_path):
    text = training_report.section(RUNS)
    assert "| 0 | this project | 11 (10 to 12) | 20 % (10 to 30) |" in text
    assert "| 2 | Hugging Face datasets | — | has none |" in text
    path = tmp_path / "training.json"
    path.write_text(json.dumps({"runs": [dataclasses.asdict(run) for run in RUNS]}))
    assert training_report.read(path) == RUNS
    assert training_report.section(training_report.read(tmp_path / "missing")) == ""


def test_the_training_step_waits_less_than_it_takes():
    step, parameters = train.make_step()
    for make in (train.without_loader, train.with_grain):
        seconds, waiting = train.train(make(0), step, parameters, 2)
        assert 0 <= waiting <= seconds
