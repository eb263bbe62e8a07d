"""Traces in the Trace Event Format."""

from __future__ import annotations

import json

import pytest

import grain
from grain.observe.exports import trace_events, write_trace
from grain.observe.statistics import PipelineStatistics, Span

from ..sample_statistics import sample_statistics


def check_format(trace):
    """Check an object against the Trace Event Format: fields, types, names of tracks, nesting."""
    assert set(trace) >= {"traceEvents", "displayTimeUnit"}
    assert trace["displayTimeUnit"] in ("ms", "ns")
    named = set()
    complete = {}
    for event in trace["traceEvents"]:
        assert isinstance(event["name"], str)
        assert isinstance(event["pid"], int)
        assert isinstance(event["tid"], int)
        assert isinstance(event["args"], dict)
        if event["ph"] == "M":
            assert event["name"] in ("process_name", "thread_name", "thread_sort_index")
            if event["name"] == "thread_name":
                named.add((event["pid"], event["tid"]))
            continue
        assert event["ph"] == "X"
        assert isinstance(event["cat"], str)
        assert event["ts"] >= 0
        assert event["dur"] >= 0
        complete.setdefault((event["pid"], event["tid"]), []).append(event)
    assert set(complete) == named
    for events in complete.values():
        assert events == sorted(events, key=lambda event: (event["ts"], -event["dur"]))
        check_nesting(events)
    return complete


def check_nesting(events):
    """Check that events of a track lie inside of each other or apart; viewers drop others."""
    ends = []
    for event in events:
        while ends and ends[-1] <= event["ts"]:
            ends.pop()
        end = event["ts"] + event["dur"]
        assert not ends or end <= ends[-1] + 0.01  # Microseconds, rounded to nanoseconds.
        ends.append(end)


def test_each_thread_and_worker_has_a_track():
    stats = sample_statistics()
    trace = trace_events(stats)
    tracks = check_format(trace)
    names = [
        event["args"]["name"] for event in trace["traceEvents"] if event["name"] == "thread_name"
    ]
    assert names == ["consumer", "worker 0", "worker 1"]
    assert [len(tracks[1, number]) for number in range(3)] == [40, 20, 20]
    first = tracks[1, 1][0]
    assert (first["name"], first["cat"]) == ("map(decode)", "map")
    assert first["ts"] == pytest.approx(0.5e6)
    assert first["dur"] == pytest.approx(0.15e6)
    assert first["args"] == {"node": 2, "elements": 32}


@pytest.mark.parametrize("executor", [None, "threads", "processes"])
def test_a_measured_timeline_is_valid(executor):
    ds = grain.MapDataset.range(200).shuffle(seed=1).map(str).to_iter_dataset().batch(4)
    if executor:
        options = grain.MultiprocessingOptions(num_workers=2, executor=executor)
        ds = ds.mp_prefetch(options)
    with grain.observing(trace=True), iter(ds) as iterator:
        assert len(list(iterator)) == 50
        trace = trace_events(iterator.stats())
    assert check_format(trace)
    names = {event["name"] for event in trace["traceEvents"]}
    assert {"map(str)", "batch(4)"} <= names


def test_several_pipelines_are_processes_on_one_clock():
    first = sample_statistics(name="train")
    second = sample_statistics(name="eval", started_at=first.started_at + 5)
    trace = trace_events([first, second])
    tracks = check_format(trace)
    assert {process for process, _ in tracks} == {1, 2}
    assert tracks[2, 0][0]["ts"] - tracks[1, 0][0]["ts"] == pytest.approx(5e6)


def test_spans_inside_of_others_come_after_them():
    spans = (
        Span("thread 10", 0, 0.0, 0.5),
        Span("thread 2", 1, 1.0, 0.5),
        Span("thread 2", 0, 1.0, 1),
    )
    trace = trace_events(PipelineStatistics(spans=spans))
    tracks = check_format(trace)
    assert [event["dur"] for event in tracks[1, 0]] == [1e6, 5e5]
    assert [event["name"] for event in tracks[1, 0]] == ["node 0", "node 1"]


def test_the_file_is_json_and_replaced_as_a_whole(tmp_path):
    path = tmp_path / "trace.json"
    path.write_text("before")
    hostile = sample_statistics(name='</script>"\n\u202e')
    write_trace(path, hostile)
    check_format(json.loads(path.read_text()))
    assert [entry.name for entry in tmp_path.iterdir()] == ["trace.json"]


def test_a_file_that_cannot_be_written_leaves_nothing(tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    with pytest.raises(OSError, match="folder"):
        write_trace(folder, sample_statistics())
    assert [entry.name for entry in tmp_path.iterdir()] == ["folder"]


@pytest.mark.parametrize("pipelines", [[], [PipelineStatistics()], PipelineStatistics()])
def test_no_timeline_is_an_error_that_says_how_to_get_one(pipelines, tmp_path):
    with pytest.raises(ValueError, match="tracing on"):
        write_trace(tmp_path / "trace.json", pipelines)
    assert not list(tmp_path.iterdir())
    assert not check_format(trace_events(pipelines))
