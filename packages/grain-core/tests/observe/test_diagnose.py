"""`grain.diagnose` reads a bounded sample and prints what limits it."""

from __future__ import annotations

import io
from typing import Any

import pytest

import grain

M = grain.MapDataset


def plus_one(x: Any) -> Any:
    return x + 1


def test_a_sample_is_read_and_printed(capsys: pytest.CaptureFixture[str]):
    stats = grain.diagnose(M.range(10**9).map(plus_one).batch(4), max_elements=30)
    assert stats.elements == 30
    printed = capsys.readouterr().out
    assert "map(plus_one)" in printed
    assert printed.rstrip().endswith(stats.verdict.sentence)


def test_the_time_bounds_the_sample():
    stats = grain.diagnose(M.range(10**9).map(plus_one), max_seconds=0.01, file=io.StringIO())
    assert 0 < stats.elements < 10**9


def test_the_consumer_gets_every_element():
    received: list[Any] = []
    grain.diagnose(M.range(20), consumer=received.append, file=None)
    assert received == list(range(20))


def test_a_loader_is_diagnosed():
    loader = grain.load(list(range(20)), num_epochs=1, batch_size=2)
    assert grain.diagnose(loader, file=None).elements == 10


def test_an_error_of_the_pipeline_is_raised_and_workers_end():
    def fail(x: int) -> int:
        raise ValueError(f"record {x}")

    with pytest.raises(ValueError, match="record 0"):
        grain.diagnose(M.range(9).map(fail), file=None)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"max_seconds": 0}, ValueError, "max_seconds must be a positive number"),
        ({"max_elements": 0}, ValueError, "max_elements must be positive, got 0"),
        ({"max_elements": "all"}, TypeError, "max_elements must be an integer"),
    ],
)
def test_wrong_arguments_are_refused(arguments, error, message):
    with pytest.raises(error, match=message):
        grain.diagnose(M.range(3), **arguments)


@pytest.mark.parametrize("value", [3, iter([1, 2]), [1, 2]])
def test_what_is_no_dataset_is_refused(value):
    with pytest.raises(TypeError, match=r"diagnose needs a (grain )?dataset or a DataLoader"):
        grain.diagnose(value)
