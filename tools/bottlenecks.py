"""Pipelines with one planted bottleneck each, measured: does the verdict name it?

Each of the twelve pipelines is read without parallelism, with two threads and with two worker processes. Of
each run, the verdict is compared with the planted bottleneck, and the wait share with a stopwatch around
`next()`. Times depend on the machine: run it where nothing else runs.

    python tools/bottlenecks.py [--seconds 2] [--only "slow map"] [--output results.json]
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import pathlib
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import grain
from grain.execution.device.placing import place_ahead
from grain.observe.statistics import PipelineStatistics

INLINE = grain.ReadOptions(num_threads=0, prefetch_buffer_size=0)
MODES = ("inline", "threads", "workers")
# The wait share may differ from that of a stopwatch by so much.
TOLERANCE = 0.02


class SlowSource:
    """Records that take a while to read."""

    def __init__(self, seconds: float, length: int = 100_000):
        self._seconds = seconds
        self._length = length

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, index: int) -> Any:
        if self._seconds:
            time.sleep(self._seconds)
        return np.full(16, index)

    def __repr__(self) -> str:
        return f"SlowSource({self._seconds})"


class ObjectSource:
    """Records that are there already, and slow to pickle."""

    def __init__(self) -> None:
        self._record: dict[str, Any] | None = None

    def __len__(self) -> int:
        return 100_000

    def __getitem__(self, index: int) -> Any:
        if self._record is None:
            self._record = {f"name {n}": (n, str(n), [n, n + 1]) for n in range(20_000)}
        return self._record

    def __getstate__(self) -> dict[str, Any]:
        return {"_record": None}


class SlowPlacement:
    """A device that takes a while to receive an element."""

    def place(self, element: Any) -> Any:
        """Return the element after a while."""
        time.sleep(0.004)
        return element

    def spec(self, spec: Any) -> Any:
        """Return the spec."""
        return spec

    def __repr__(self) -> str:
        return "device_put(slow device)"


def slow(element: Any) -> Any:
    """Wait, then return the element."""
    time.sleep(0.003)
    return element


def slow_random(element: Any, rng: np.random.Generator) -> Any:
    """Wait, then return the element with a random number added."""
    time.sleep(0.003)
    return element + rng.integers(3)


def slow_keep(element: Any) -> bool:
    """Wait, then keep every second element."""
    time.sleep(0.003)
    return bool(element[0] % 2)


def slow_stack(elements: Any) -> Any:
    """Wait, then stack the elements."""
    time.sleep(0.01)
    return np.stack(elements)


def loop(element: Any) -> Any:
    """Run Python code, which holds the interpreter lock."""
    total = 0
    for number in range(40_000):
        total += number
    return element + total % 2


def note_worker(index: int, count: int) -> None:
    """Keep the number of this worker where functions that are sent by value find it."""
    del count
    os.environ["BOTTLENECKS_WORKER"] = str(index)


def slow_in_one_worker(element: Any) -> Any:
    """Wait, much longer in one of the workers."""
    time.sleep(0.04 if os.environ.get("BOTTLENECKS_WORKER") == "1" else 0.002)
    return element


def busy(element: Any) -> None:
    """Wait, as a training step that takes longer than the pipeline."""
    del element
    time.sleep(0.01)


def sometimes_busy(element: Any) -> None:
    """Wait, as a training step that takes a part of the time."""
    del element
    time.sleep(0.002)


@dataclasses.dataclass(frozen=True)
class Planted:
    """A pipeline with one bottleneck.

    Attributes:
        make: Returns the map dataset, or an iter dataset.
        expected: The kinds of verdict that name the bottleneck, by mode; a mode that cannot have it is
            left out.
        name: A part of the name of the node that is to be found; empty for none.
        above: What is added above the boundary.
        consumer: What the consumer does with an element.
        worker_init_fn: Called in each worker.
    """

    make: Callable[[], Any]
    expected: dict[str, str]
    name: str = ""
    above: Callable[[Any], Any] = lambda ds: ds
    consumer: Callable[[Any], None] | None = None
    worker_init_fn: Callable[[int, int], None] | None = None


def everywhere(kind: str) -> dict[str, str]:
    """Return one kind for all modes."""
    return dict.fromkeys(MODES, kind)


def records(seconds: float = 0.0) -> Any:
    """Return a map dataset of small records."""
    return grain.MapDataset.source(SlowSource(seconds)).shuffle(seed=1)


def documents() -> Any:
    """Return a map dataset of short documents."""
    lengths = np.random.default_rng(0).integers(4, 60, 500)
    rows = [{"tokens": np.arange(length)} for length in lengths]
    return grain.MapDataset.source(rows).repeat(1_000_000)


def pack(ds: Any) -> Any:
    """Pack documents into rows, with many open rows."""
    return grain.experimental.FirstFitPackIterDataset(
        ds, length_struct={"tokens": 512}, num_packing_bins=256
    )


def mixture() -> Any:
    """Return a mixture of which one component is slow to read."""
    parts = [records(), records(0.006), records()]
    return grain.MapDataset.mix(parts, [0.4, 0.2, 0.4])


PIPELINES: dict[str, Planted] = {
    "slow read": Planted(lambda: records(0.003).batch(4), everywhere("source"), "SlowSource"),
    "slow map": Planted(lambda: records().map(slow).batch(4), everywhere("transform"), "slow"),
    "slow random_map": Planted(
        lambda: records().seed(1).random_map(slow_random).batch(4),
        everywhere("transform"),
        "slow_random",
        consumer=sometimes_busy,
    ),
    "slow filter": Planted(
        records,
        everywhere("filter"),
        "slow_keep",
        above=lambda ds: ds.filter(slow_keep).batch(4),
    ),
    "expensive batch": Planted(
        lambda: records().batch(8, batch_fn=slow_stack), everywhere("batching"), "batch"
    ),
    "packing": Planted(documents, everywhere("packing"), "pack", above=pack),
    "transport": Planted(
        lambda: grain.MapDataset.source(ObjectSource()), {"workers": "transport"}, "mp_prefetch"
    ),
    "one slow worker": Planted(
        lambda: records().map(slow_in_one_worker).batch(4),
        {"workers": "skewed_worker"},
        worker_init_fn=note_worker,
    ),
    "interpreter lock": Planted(
        lambda: records().map(loop).batch(4),
        {"inline": "transform", "threads": "gil", "workers": "transform"},
        "loop",
    ),
    "slow consumer": Planted(lambda: records().batch(4), everywhere("consumer"), consumer=busy),
    "device transfer": Planted(
        lambda: records().batch(4),
        everywhere("device"),
        "device",
        above=lambda ds: place_ahead(ds, SlowPlacement(), 2, 2),
    ),
    "starved mixture": Planted(
        lambda: mixture().batch(4), everywhere("mixture"), "SlowSource(0.006)"
    ),
}


def build(planted: Planted, mode: str) -> Any:
    """Return the dataset of a pipeline in one mode."""
    threads = grain.ReadOptions(num_threads=2, prefetch_buffer_size=64)
    ds = planted.make().to_iter_dataset(threads if mode == "threads" else INLINE)
    if mode != "workers":
        return planted.above(ds)
    options = grain.MultiprocessingOptions(num_workers=2, per_worker_buffer_size=4)
    is_device = "device" in planted.expected.values()
    if is_device:
        return planted.above(ds.mp_prefetch(options, planted.worker_init_fn))
    return planted.above(ds).mp_prefetch(options, planted.worker_init_fn)


@dataclasses.dataclass
class Watched:
    """Waits that a stopwatch around `next()` measures, after the first element."""

    waiting: float = 0.0
    total: float = 0.0

    @property
    def share(self) -> float:
        """The share of waiting."""
        return self.waiting / self.total if self.total else 0.0


def run(planted: Planted, mode: str, seconds: float) -> tuple[PipelineStatistics, Watched]:
    """Read a pipeline for a while."""
    watched = Watched()
    with grain.observing(), iter(build(planted, mode)) as iterator:
        element = next(iterator)
        started = last = time.perf_counter()
        while last - started < seconds:
            if planted.consumer is not None:
                planted.consumer(element)
            del element  # Freeing it is time of the consumer.
            before = time.perf_counter()
            element = next(iterator)
            now = time.perf_counter()
            watched.waiting += now - before
            last = now
        watched.total = last - started
        return iterator.stats(), watched


def judge(name: str, mode: str, seconds: float) -> dict[str, Any]:
    """Return the result of one pipeline in one mode."""
    planted = PIPELINES[name]
    stats, watched = run(planted, mode, seconds)
    verdict = stats.verdict
    node = None if verdict.node is None else stats.node(verdict.node).name
    expected = planted.expected.get(mode)
    named = verdict.kind == expected and (not planted.name or planted.name in (node or ""))
    difference = abs(stats.wait_share - watched.share)
    return {
        "pipeline": name,
        "mode": mode,
        "expected": expected,
        "found": verdict.kind,
        "node": node,
        "named": named if expected else None,
        "wait_share": stats.wait_share,
        "stopwatch": watched.share,
        "wait_share_agrees": difference <= TOLERANCE,
        "sentence": verdict.sentence,
    }


def main() -> int:
    """Run all pipelines; return 1 if a verdict misses the planted bottleneck or a wait share is off."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=2.0, help="time per run")
    parser.add_argument("--only", action="append", help="name of a pipeline; may be repeated")
    parser.add_argument("--output", type=pathlib.Path, help="file for the results as JSON")
    arguments = parser.parse_args()
    unknown = set(arguments.only or ()) - set(PIPELINES)
    if unknown:
        parser.error(f"unknown pipelines {sorted(unknown)}; choose from {sorted(PIPELINES)}")
    results = []
    for name in arguments.only or PIPELINES:
        for mode in MODES:
            if mode not in PIPELINES[name].expected:
                continue
            result = judge(name, mode, arguments.seconds)
            results.append(result)
            mark = "ok " if result["named"] and result["wait_share_agrees"] else "BAD"
            print(
                f"{mark} {name:<17} {mode:<8} expected {result['expected']:<13} found "
                f"{result['found']:<13} {result['node'] or '':<28} wait {result['wait_share']:.1%} "
                f"(stopwatch {result['stopwatch']:.1%})",
                flush=True,
            )
            if not result["named"]:
                print(f"    {result['sentence']}")
    if arguments.output is not None:
        arguments.output.write_text(json.dumps(results, indent=1) + "\n")
    named = sum(bool(result["named"]) for result in results)
    agreeing = sum(result["wait_share_agrees"] for result in results)
    print(
        f"{named} of {len(results)} named; {agreeing} of {len(results)} wait shares within 2 points"
    )
    return 0 if named == agreeing == len(results) else 1


if __name__ == "__main__":
    sys.exit(main())
