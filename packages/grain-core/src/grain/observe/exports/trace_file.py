"""The timeline of pipelines as a trace: a file that Perfetto and `chrome://tracing` open.

The format is Chrome's Trace Event Format in JSON: each pipeline is a process, each thread or worker a track
of it, and each piece of work a complete event on its track.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from typing import Any

from grain.observe.statistics import PipelineStatistics

_MICROSECONDS = 1e6
# The consumer first, then threads, then workers.
_TRACK_ORDER = ("consumer", "thread", "worker")


def trace_events(pipelines: PipelineStatistics | Iterable[PipelineStatistics]) -> dict[str, Any]:
    """Return the timelines of pipelines as an object of the Trace Event Format.

    Args:
        pipelines: Statistics of pipelines that were observed with tracing on.
    """
    if isinstance(pipelines, PipelineStatistics):
        pipelines = (pipelines,)
    pipelines = tuple(pipelines)
    start = min((stats.started_at for stats in pipelines), default=0.0)
    events: list[dict[str, Any]] = []
    for number, stats in enumerate(pipelines, start=1):
        events += _pipeline_events(stats, number, stats.started_at - start)
    return {
        "traceEvents": events,
        "displayTimeUnit": "ms",
        "otherData": {
            stats.name: {"verdict": str(stats.verdict), "started_at": stats.started_at}
            for stats in pipelines
        },
    }


def write_trace(
    path: str | os.PathLike[str], pipelines: PipelineStatistics | Iterable[PipelineStatistics]
) -> None:
    """Write the timelines of pipelines into a file for Perfetto (https://ui.perfetto.dev).

    Args:
        path: The file; it is replaced when all of it has been written.
        pipelines: Statistics of pipelines that were observed with tracing on.

    Raises:
        ValueError: No pipeline has a timeline.
    """
    if isinstance(pipelines, PipelineStatistics):
        pipelines = (pipelines,)
    pipelines = tuple(pipelines)
    if not any(stats.spans for stats in pipelines):
        raise ValueError(
            f"There is no timeline to write: none of {len(pipelines)} pipelines has spans. Observe "
            "with tracing on, `with grain.observing(trace=True):`, and read some elements first."
        )
    path = os.fspath(path)
    partial = f"{path}.{os.getpid()}.partial"
    try:
        with open(partial, "w", encoding="utf-8") as file:
            json.dump(trace_events(pipelines), file, allow_nan=False)
        os.replace(partial, path)
    except BaseException:
        if os.path.exists(partial):
            os.remove(partial)
        raise


def _pipeline_events(
    stats: PipelineStatistics, process: int, offset: float
) -> list[dict[str, Any]]:
    tracks = sorted({span.track for span in stats.spans}, key=_track_rank)
    events: list[dict[str, Any]] = [_name_event("process_name", process, 0, {"name": stats.name})]
    for number, track in enumerate(tracks):
        events.append(_name_event("thread_name", process, number, {"name": track}))
        events.append(_name_event("thread_sort_index", process, number, {"sort_index": number}))
    numbers = {track: number for number, track in enumerate(tracks)}
    nodes = {node.id: node for node in stats.nodes}
    # Viewers nest events of one track by time; of two that start together, the longer is outside.
    for span in sorted(stats.spans, key=lambda span: (span.start, -span.duration)):
        node = nodes.get(span.node)
        events.append(
            {
                "name": node.name if node else f"node {span.node}",
                "cat": node.operation if node else "node",
                "ph": "X",
                "ts": round((offset + span.start) * _MICROSECONDS, 3),
                "dur": round(span.duration * _MICROSECONDS, 3),
                "pid": process,
                "tid": numbers[span.track],
                "args": {"node": span.node, "elements": span.elements},
            }
        )
    return events


def _name_event(kind: str, process: int, track: int, arguments: dict[str, Any]) -> dict[str, Any]:
    return {"name": kind, "ph": "M", "pid": process, "tid": track, "args": arguments}


def _track_rank(track: str) -> tuple[int, int, str]:
    kind, _, index = track.partition(" ")
    rank = _TRACK_ORDER.index(kind) if kind in _TRACK_ORDER else len(_TRACK_ORDER)
    return rank, int(index) if index.isdecimal() else 0, track
