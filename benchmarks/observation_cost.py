"""What observation costs: pipelines read with and without it, interleaved.

    python -m benchmarks.observation_cost [--repetitions 15] [--cases A,B] [--cpu] [--publish]

`--cpu` compares the processor time of the consuming process, for a machine that is busy with other work.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import gc
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import grain
from benchmarks import machine, observation_report, publishing
from benchmarks.observation_report import ObservationCost

INLINE = grain.ReadOptions(num_threads=0, prefetch_buffer_size=0)
TWO_WORKERS = grain.MultiprocessingOptions(num_workers=2, per_worker_buffer_size=2)
M = grain.MapDataset


class Images:
    """Images that are made of an index: cheap to make, large to move."""

    def __init__(self, side: int = 224):
        self._image = np.random.default_rng(0).integers(0, 255, (side, side, 3), dtype=np.uint8)

    def __len__(self) -> int:
        return 10**6

    def __getitem__(self, index: int) -> Any:
        return {"image": self._image, "label": np.int64(index)}


def add(x: Any) -> Any:
    """Return the number after x."""
    return x + 1


def is_even(x: Any) -> bool:
    """Return whether x is even."""
    return bool(x % 2 == 0)


def normalize(element: Any) -> Any:
    """Return an image as numbers from 0 to 1."""
    return {"image": element["image"].astype(np.float32) / 255, "label": element["label"]}


def documents() -> Any:
    """Return documents of different lengths."""
    lengths = np.random.default_rng(0).integers(16, 1500, 2000)
    return M.source([{"tokens": np.arange(n, dtype=np.int32)} for n in lengths]).repeat()


@dataclasses.dataclass(frozen=True)
class Pipeline:
    """A pipeline to be read with and without observation.

    Attributes:
        summary: What it does.
        limit: The cost that is accepted, as a share.
        make: Returns the dataset.
        elements: How many elements to read.
    """

    summary: str
    limit: float
    make: Callable[[], Any]
    elements: int


PIPELINES = {
    "shuffle_map_batch": Pipeline(
        "shuffle, map and batch integers",
        0.05,
        lambda: M.range(10**7).shuffle(42).map(add).batch(128).to_iter_dataset(INLINE),
        4000,
    ),
    "images_norm_batch_mp2": Pipeline(
        "normalize and batch images in two workers",
        0.05,
        lambda: (
            M.source(Images()).shuffle(1).map(normalize).batch(64).to_iter_dataset()
        ).mp_prefetch(TWO_WORKERS),
        300,
    ),
    "map_elements": Pipeline(
        "map integers, one by one",
        0.15,
        lambda: M.range(10**7).shuffle(42).map(add).to_iter_dataset(INLINE),
        600_000,
    ),
    "filter_iter_batch": Pipeline(
        "filter integers by index, then batch",
        0.15,
        lambda: M.range(10**7).shuffle(1).filter(is_even).to_iter_dataset(INLINE).batch(128),
        2400,
    ),
    "mix_batch": Pipeline(
        "mix three datasets",
        0.15,
        lambda: (
            M.mix([M.range(10**6).shuffle(n) for n in range(3)], [0.5, 0.3, 0.2]).batch(128)
        ).to_iter_dataset(INLINE),
        1500,
    ),
    "pack_first_fit": Pipeline(
        "pack documents into rows",
        0.15,
        lambda: documents().to_iter_dataset(INLINE).pack({"tokens": 2048}, num_packing_bins=64),
        3000,
    ),
}


def measure(pipeline: Pipeline, *, observed: bool, clock: Callable[[], float]) -> float:
    """Return how long reading a pipeline takes, without its first element."""
    block: Any = grain.observing() if observed else contextlib.nullcontext()
    with block, iter(pipeline.make()) as iterator:
        next(iterator)
        gc.collect()
        started = clock()
        for _ in range(pipeline.elements):
            next(iterator)
        return clock() - started


def compare(name: str, repetitions: int, clock: Callable[[], float]) -> ObservationCost:
    """Return the times of one pipeline; which run is first changes with each repetition."""
    pipeline = PIPELINES[name]
    found: dict[bool, list[float]] = {False: [], True: []}
    for repetition in range(repetitions):
        for observed in (bool(repetition % 2), not repetition % 2):
            found[observed].append(measure(pipeline, observed=observed, clock=clock))
    return ObservationCost(
        case=name,
        summary=pipeline.summary,
        limit=pipeline.limit,
        off=tuple(found[False]),
        on=tuple(found[True]),
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure all pipelines; return 1 if the median cost of one is above its limit."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repetitions", type=int, default=15)
    parser.add_argument("--cases", help="names of pipelines, divided by commas")
    parser.add_argument("--cpu", action="store_true", help="compare processor time")
    parser.add_argument(
        "--publish", action="store_true", help="write the page of the documentation"
    )
    given = parser.parse_args(arguments)
    names = given.cases.split(",") if given.cases else list(PIPELINES)
    unknown = set(names) - set(PIPELINES)
    if unknown:
        parser.error(f"unknown cases {sorted(unknown)}; choose from {sorted(PIPELINES)}")
    clock = time.process_time if given.cpu else time.perf_counter
    found = []
    for name in names:
        found.append(compare(name, given.repetitions, clock))
        print(observation_report.line(found[-1]), flush=True)
    if given.publish:
        observation_report.write(found, machine.describe())
        publishing.publish_page()
    return int(any(item.cost > item.limit for item in found))


if __name__ == "__main__":
    sys.exit(main())
