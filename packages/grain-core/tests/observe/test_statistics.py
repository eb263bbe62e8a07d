"""Tests of the values that hold measurements."""

from __future__ import annotations

import dataclasses
import json

import pytest

from grain.observe.statistics import PipelineStatistics

from .sample_statistics import sample_statistics


def test_statistics_survive_json():
    stats = sample_statistics()
    text = stats.to_json()
    assert PipelineStatistics.from_json(text) == stats
    assert json.loads(text)["verdict"]["sentence"] == stats.verdict.sentence


def test_empty_statistics_survive_json_and_print():
    stats = PipelineStatistics()
    assert PipelineStatistics.from_json(stats.to_json(indent=1)) == stats
    assert stats.wait_share == stats.throughput == stats.potential_throughput == 0
    assert "No element was measured" in str(stats)


def test_fields_of_a_later_version_are_left_out():
    values = sample_statistics().to_dict()
    values["later"] = values["nodes"][0]["later"] = values["workers"][0]["later"] = 1
    assert PipelineStatistics.from_dict(values) == sample_statistics()


def test_another_format_version_is_refused():
    with pytest.raises(ValueError, match=r"format version 99.*reads version 1"):
        PipelineStatistics.from_dict({"version": 99})


def test_statistics_are_immutable():
    with pytest.raises(dataclasses.FrozenInstanceError):
        sample_statistics().elements = 3


def test_the_table_has_each_node_the_wait_and_the_verdict():
    stats = sample_statistics()
    text = str(stats)
    for node in stats.nodes:
        assert node.name in text
    assert "consumer waits 87%" in text
    assert "p95 110 ms" in text
    assert text.endswith(stats.verdict.sentence)


def test_the_wait_share_and_the_throughput_leave_out_the_warm_up():
    stats = sample_statistics()
    assert stats.wait_share == pytest.approx(8.7 / 10)
    assert stats.throughput == pytest.approx(15.9)


def test_a_node_that_is_missing_is_named_with_those_that_exist():
    with pytest.raises(KeyError, match=r"no node 9.*2: map\(decode\)"):
        sample_statistics().node(9)
    assert sample_statistics().node(2).function == "decode"
