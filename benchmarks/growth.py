"""Growth: the cost of an element against one quantity of a pipeline at a time.

    python -m benchmarks.growth [--quick] [--axes A,B] [--publish]

`nox -s growth` creates the environment and runs this command. Costs are processor time, so other load of
the machine matters little; only worker processes are measured by the clock.
"""

from __future__ import annotations

import argparse
import dataclasses
import gc
import itertools
import math
import pathlib
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

import grain
from benchmarks import growth_report, publishing, work
from benchmarks.command import ROOT, names, select
from benchmarks.growth_report import Growth

INLINE = grain.ReadOptions(num_threads=0, prefetch_buffer_size=0)
M, X = grain.MapDataset, grain.experimental

Clock = Callable[[], float]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Axis:
    """A quantity of a pipeline that grows.

    Attributes:
        name: Its name on the command line and in the report.
        title: A line of description.
        xlabel: What the quantity is.
        unit: Of what is measured.
        points: Values of the quantity.
        cost: Returns the cost at one value; takes the value and the seconds to measure.
    """

    name: str
    title: str
    xlabel: str
    points: tuple[float, ...]
    cost: Callable[[Any, float], float]
    unit: str = "ns per element"


def per_element(
    make: Callable[[], Iterable[Any]],
    seconds: float,
    per_output: float = 1,
    clock: Clock = time.process_time,
    skipped: int = 1,
) -> float:
    """Return the nanoseconds per element of a stream, after a warm-up of at least `skipped` outputs."""
    stream = itertools.chain.from_iterable(iter(make, None))
    try:
        # Also opens the pipeline, which is not the cost of an element.
        for _ in itertools.islice(stream, skipped):
            pass
        _take(stream, max(seconds / 3, 0.05), clock)
        taken, passed = _take(stream, seconds, clock)
    finally:
        del stream
        gc.collect()
    return passed / (taken * per_output) * 1e9


def _take(stream: Iterable[Any], seconds: float, clock: Clock) -> tuple[int, float]:
    taken, stride, start = 0, 1, clock()
    while True:
        before = clock()
        for _ in itertools.islice(stream, stride):
            pass
        taken += stride
        now = clock()
        if now - start >= seconds:
            return taken, now - start
        if now - before < seconds / 50:
            stride *= 2


def once(function: Callable[[], Any], seconds: float) -> float:
    """Return the milliseconds of a call, the lowest of some calls."""
    found, end = [], time.process_time() + seconds
    while not found or (time.process_time() < end and len(found) < 20):
        start = time.process_time()
        function()
        found.append(time.process_time() - start)
    return min(found) * 1e3


# --- pipelines ---------------------------------------------------------------------------------


def parts(count: int) -> list[Any]:
    """Return shuffled components."""
    return [M.range(10**6).shuffle(number) for number in range(count)]


def whole_weights(count: int) -> list[float]:
    """Return small integers."""
    return [1.0 + number % 7 for number in range(count)]


def real_weights(count: int) -> list[float]:
    """Return arbitrary numbers."""
    return [float(weight) for weight in np.random.default_rng(0).uniform(0.1, 10, count)]


def batches(ds: Any, size: int = 256) -> Callable[[], Iterable[Any]]:
    """Return a maker of batches, read in one thread."""
    made = ds.batch(size).to_iter_dataset(INLINE)
    return lambda: made


def mix(count: int, weights: Callable[[int], list[float]], shuffled: bool = False) -> Any:
    """Return a mixture."""
    made = M.mix(parts(count), weights(count))
    return made.shuffle(5) if shuffled else made


def first_of_mix(count: int, seconds: float) -> float:
    """Return the milliseconds to the first element of a mixture that was described before."""
    components, weights = parts(count), real_weights(count)
    made: list[Any] = []

    def describe() -> None:
        made.append(M.mix(components, weights).to_iter_dataset(INLINE))

    found = []
    for _ in range(3):
        describe()
        found.append(once(lambda: next(iter(made[-1])), 0))
    return min(found)


def build_of_mix(count: int, seconds: float) -> float:
    """Return the milliseconds to describe a mixture and its components."""
    return once(lambda: mix(count, whole_weights), seconds)


def deep_maps(depth: int) -> Any:
    """Return a chain of functions."""
    ds: Any = M.range(10**6)
    for _ in range(depth):
        ds = ds.map(work.add_one)
    return ds


def deep_concatenation(depth: int) -> Any:
    """Return concatenations nested in each other."""
    ds: Any = M.range(1000)
    for _ in range(depth):
        ds = M.concatenate([ds, M.range(1000)])
    return ds.repeat()


def filtered(ratio: float, by_index: bool) -> Any:
    """Return a filter that keeps a share of the elements."""
    step = round(1 / ratio)
    ds = M.range(10**9)
    if by_index:
        return ds.filter(lambda x: x % step == 0).to_iter_dataset(INLINE)
    return ds.to_iter_dataset(INLINE).filter(lambda x: x % step == 0)


def sized(nbytes: float) -> Any:
    """Return arrays of a size, copied into batches of two."""
    arrays = [np.zeros(int(nbytes), np.uint8) for _ in range(4)]
    return M.source(arrays).repeat()


def heavy_with_workers(count: int) -> Any:
    """Return a heavy function computed by workers."""
    ds: Any = M.source(work.Ints(10**7)).map(work.heavy).batch(64).to_iter_dataset()
    return ds.mp_prefetch(grain.MultiprocessingOptions(num_workers=count, per_worker_buffer_size=4))


def with_workers(count: int, seconds: float) -> float:
    """Return nanoseconds per element by the clock."""
    iterator = iter(heavy_with_workers(count))
    try:
        return per_element(lambda: iterator, max(seconds, 0.5), 64, time.perf_counter)
    finally:
        iterator.close()


_POWERS = tuple(10.0**power for power in range(5))
_COMPONENTS = (1, 10, 100, 1_000, 10_000)

AXES = [
    Axis(
        name="mix_build",
        title="describing a mixture and its components",
        xlabel="components",
        unit="ms",
        points=_COMPONENTS,
        cost=build_of_mix,
    ),
    Axis(
        name="mix_first",
        title="first element of a described mixture",
        xlabel="components",
        unit="ms",
        points=_COMPONENTS,
        cost=first_of_mix,
    ),
    Axis(
        name="mix_whole_weights",
        title="mixture with integer weights, batches",
        xlabel="components",
        points=_COMPONENTS,
        cost=lambda k, s: per_element(batches(mix(k, whole_weights)), s, 256),
    ),
    Axis(
        name="mix_real_weights",
        title="mixture with arbitrary weights, batches",
        xlabel="components",
        points=_COMPONENTS,
        cost=lambda k, s: per_element(batches(mix(k, real_weights)), s, 256),
    ),
    Axis(
        name="mix_shuffled",
        title="shuffled mixture with integer weights, batches",
        xlabel="components",
        points=_COMPONENTS,
        cost=lambda k, s: per_element(batches(mix(k, whole_weights, shuffled=True)), s, 256),
    ),
    Axis(
        name="concatenate_shuffled",
        title="shuffled concatenation of shuffled components, batches",
        xlabel="components",
        points=_COMPONENTS,
        cost=lambda k, s: per_element(batches(M.concatenate(parts(k)).shuffle(9)), s, 256),
    ),
    Axis(
        name="mix_streams",
        title="mixture of iter datasets",
        xlabel="components",
        points=_COMPONENTS[:-1],
        cost=lambda k, s: per_element(
            lambda: grain.IterDataset.mix(
                [part.to_iter_dataset(INLINE) for part in parts(k)], whole_weights(k)
            ),
            s,
            skipped=20 * k,
        ),
    ),
    Axis(
        name="zip",
        title="zip, for each of its values",
        xlabel="components",
        points=_COMPONENTS[:-1],
        cost=lambda k, s: per_element(
            lambda: X.ZipMapDataset(parts(k)).to_iter_dataset(INLINE), s, k
        ),
    ),
    Axis(
        name="depth_maps",
        title="functions above each other, for each function",
        xlabel="depth",
        points=(1, 3, 10, 30, 100),
        cost=lambda d, s: per_element(lambda: deep_maps(d).to_iter_dataset(INLINE), s, d),
    ),
    Axis(
        name="depth_concatenate",
        title="concatenations nested in each other, batches",
        xlabel="depth",
        points=(1, 3, 10, 30, 100),
        cost=lambda d, s: per_element(batches(deep_concatenation(d)), s, 256),
    ),
    Axis(
        name="length",
        title="shuffle, batches",
        xlabel="elements in the dataset",
        points=tuple(10.0**power for power in range(2, 13, 2)),
        cost=lambda n, s: per_element(batches(M.range(int(n)).shuffle(1).repeat(), 128), s, 128),
    ),
    Axis(
        name="epochs",
        title="endless epochs of a tiny dataset, each shuffled, batches",
        xlabel="elements in the dataset",
        points=(1, 3, 10, 100, 1_000),
        cost=lambda n, s: per_element(batches(M.range(n).shuffle(1).repeat(), 128), s, 128),
    ),
    Axis(
        name="window_by_index",
        title="shuffle within windows, by index, batches",
        xlabel="window",
        points=(10, 100, 1_000, 10_000, 100_000),
        cost=lambda w, s: per_element(
            batches(X.WindowShuffleMapDataset(M.range(10**7), window_size=w, seed=1)), s, 256
        ),
    ),
    Axis(
        name="window_of_stream",
        title="shuffle within windows of a stream",
        xlabel="window",
        points=(10, 100, 1_000, 10_000, 100_000),
        cost=lambda w, s: per_element(
            lambda: X.WindowShuffleIterDataset(
                M.range(10**7).to_iter_dataset(INLINE), window_size=w, seed=1
            ),
            s,
        ),
    ),
    Axis(
        name="filter_by_index",
        title="filter by index, for each element read",
        xlabel="elements read for each one kept",
        points=(1, 10, 100, 1_000, 10_000, 100_000),
        cost=lambda k, s: per_element(lambda: filtered(1 / k, True), s, k),
    ),
    Axis(
        name="filter_of_stream",
        title="filter of a stream, for each element read",
        xlabel="elements read for each one kept",
        points=(1, 10, 100, 1_000, 10_000, 100_000),
        cost=lambda k, s: per_element(lambda: filtered(1 / k, False), s, k),
    ),
    Axis(
        name="batch_size",
        title="shuffle, function, batch",
        xlabel="elements of a batch",
        points=(1, 10, 100, 1_000, 10_000),
        cost=lambda b, s: per_element(
            batches(M.range(10**9).shuffle(1).map(work.add_one), b), s, b
        ),
    ),
    Axis(
        name="element_size",
        title="arrays in memory, batch of two, for each KiB",
        xlabel="bytes of an element",
        unit="ns per KiB",
        points=(8, 10**3, 10**5, 10**6, 10**7, 10**8),
        cost=lambda b, s: per_element(batches(sized(b), 2), s, 2 * b / 1024),
    ),
    Axis(
        name="workers",
        title="a heavy function in worker processes, by the clock",
        xlabel="worker processes",
        points=(1, 2, 3, 4),
        cost=with_workers,
    ),
]
BY_NAME = {axis.name: axis for axis in AXES}


# --- measuring and reporting ---------------------------------------------------------------------


def measure(axes: Sequence[Axis], seconds: float, repetitions: int) -> list[Growth]:
    """Return the growth of each axis."""
    found = []
    for axis in axes:
        costs = [
            min(axis.cost(point, seconds) for _ in range(repetitions)) for point in axis.points
        ]
        growth = Growth(
            axis=axis.name,
            title=axis.title,
            xlabel=axis.xlabel,
            unit=axis.unit,
            points=axis.points,
            costs=tuple(costs),
        )
        found.append(growth)
        print(growth, flush=True)
    return found


def main(command_line: Sequence[str] | None = None) -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(prog="nox -s growth --", description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="shorter measurements")
    parser.add_argument("--axes", type=names, metavar="A,B", help="only these axes")
    parser.add_argument(
        "--publish", action="store_true", help="write the page of the documentation"
    )
    parser.add_argument("--output", type=pathlib.Path, default=ROOT / "build/bench")
    arguments = parser.parse_args(command_line)
    warnings.filterwarnings("ignore", message="Transformation")
    wanted = [BY_NAME[name] for name in select(arguments.axes, list(BY_NAME), "axis")]
    seconds, repetitions = (0.03, 1) if arguments.quick else (0.25, 3)
    started = time.monotonic()
    found = measure(wanted, seconds, repetitions)
    text = growth_report.to_json(found, time.monotonic() - started)
    arguments.output.mkdir(parents=True, exist_ok=True)
    (arguments.output / "growth.json").write_text(text)
    growth_report.draw(found, arguments.output)
    if arguments.publish:
        growth_report.RESULTS.write_text(text)
        publishing.publish_page()
    # Time by the clock depends on the number of processors.
    costs = (growth for growth in found if growth.axis != "workers")
    steep = [g for g in costs if g.exponent > 1.1 or not math.isfinite(g.exponent)]
    for growth in steep:
        print(f"SUPERLINEAR: {growth}")
    return int(bool(steep))


if __name__ == "__main__":
    sys.exit(main())
