"""Measure Ray against local processes on one machine, and a sequencer against one host.

Usage: python tools/measure_ray.py [ROUNDS]

Prints processor time, of all processes together, and wall-clock time. Rounds are interleaved, and the best
one counts: other load only makes a round slower. The median of the ratios of each round shows how far that is
from a usual one, and the load of the machine how busy it was.
"""

from __future__ import annotations

import importlib
import os
import pathlib
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import grain
import grain_ray
from grain.experimental import ElasticIterator, FirstFitPackIterDataset
from grain.sharding import ShardOptions

ROOT = pathlib.Path(__file__).parent.parent
TICKS = os.sysconf("SC_CLK_TCK")
HOSTS = 4

INLINE = grain.ReadOptions(num_threads=0, prefetch_buffer_size=0)


def slow_function(x: int) -> np.ndarray:
    """Take about 5 ms of processor time, whatever else runs."""
    total = np.zeros(1000)
    for step in range(1300):
        total += np.sqrt(total + step + x)
    return total


def image(x: int) -> np.ndarray:
    """Return an image, in about the time of a copy."""
    return np.full((224, 224, 3), x, np.float32)


def tokenize(x: int) -> dict[str, np.ndarray]:
    """Return tokens, in some milliseconds, as a tokenizer does for a page of text."""
    rng = np.random.default_rng(x)
    for _ in range(150):
        tokens = rng.integers(0, 50_000, 400, dtype=np.int32)
        tokens.sort()
    return {"tokens": tokens[: 20 + x % 200]}


def packed(count: int) -> grain.IterDataset:
    """Return a packed stream.

    It is read without threads: by default their number follows from measurements, and several threads that
    contend for the interpreter lock can use twice the processor time of one.
    """
    ds = grain.MapDataset.range(count).shuffle(1).map(tokenize).to_iter_dataset(INLINE)
    return FirstFitPackIterDataset(ds, length_struct={"tokens": 512}, num_packing_bins=16)


def processor_seconds() -> dict[int, float]:
    """Return the processor time of this process and of each process below it."""
    stats = {}
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue  # It ended.
        stats[int(folder.name)] = int(fields[1]), sum(map(int, fields[11:13])) / TICKS
    found, wanted = {}, [os.getpid()]
    while wanted:
        pid = wanted.pop()
        found[pid] = stats[pid][1] if pid in stats else 0.0
        wanted += [child for child, (parent, _) in stats.items() if parent == pid]
    return found


def seconds_since(before: dict[int, float]) -> float:
    """Return the processor time since a call of `processor_seconds`.

    By process: one of an earlier round may end at any moment, and must not count as time that is given back.
    """
    return sum(seconds - before.get(pid, 0.0) for pid, seconds in processor_seconds().items())


def wait_until_idle(limit: float = 30.0) -> None:
    """Wait until Ray has started its spare workers: their imports are no part of what is measured."""
    deadline = time.monotonic() + limit
    used = 1.0
    while used > 0.1 and time.monotonic() < deadline:
        before = processor_seconds()
        time.sleep(0.5)
        used = seconds_since(before)


def timed(iterator: Iterator[Any], warm_up: int, count: int) -> tuple[float, float]:
    """Return the processor and wall-clock seconds of `count` elements."""
    for _ in range(warm_up):
        next(iterator)
    before, started = processor_seconds(), time.perf_counter()
    for _ in range(count):
        next(iterator)
    return seconds_since(before), time.perf_counter() - started


def compare(
    name: str, ds: grain.IterDataset, executors: dict[str, Any], size: tuple[int, int], rounds: int
) -> None:
    """Print the best of several rounds of each executor."""
    tasks: dict[str, int] = {}
    found: dict[str, list[tuple[float, float]]] = {label: [] for label in executors}
    for _ in range(rounds):
        for label, executor in executors.items():
            options = grain.MultiprocessingOptions(num_workers=2, executor=executor)
            if not isinstance(executor, str):
                options = grain.MultiprocessingOptions(executor=executor)
            with iter(ds.mp_prefetch(options)) as iterator:
                found[label].append(timed(iterator, *size))
                tasks[label] = iterator.session.counts.calls
    best = {label: (min(c for c, _ in t), min(w for _, w in t)) for label, t in found.items()}
    base = best["processes"]
    for label, (processor, wall) in best.items():
        pairs = list(zip(found["processes"], found[label], strict=True))
        costs = statistics.median(mine[0] / local[0] for local, mine in pairs)
        speeds = statistics.median(local[1] / mine[1] for local, mine in pairs)
        print(
            f"{name:8} {label:10} {processor / size[1] * 1e3:8.2f} ms of processor time each "
            f"({processor / base[0]:.2f} times, median {costs:.2f}), {size[1] / wall:8.1f} /s "
            f"({base[1] / wall:.2f} times, median {speeds:.2f}), {tasks[label]} tasks",
            flush=True,
        )
    loads = ", ".join(f"{load:.1f}" for load in os.getloadavg())
    print(f"{name:8} {rounds} rounds; load of the machine: {loads}", flush=True)


def measure_hosts(address: str, rounds: int, documents: int = 6000) -> None:
    """Print the processor time of four hosts with a sequencer, and of one host alone."""
    alone, together = [], []
    for _ in range(rounds):
        one = ElasticIterator(packed(documents), 32, ShardOptions(0, 1))
        alone.append(timed(iter(one), 2, steps := 30)[0])
        hosts = [
            grain_ray.SequencedIterator(
                packed(documents), 32, ShardOptions(host, HOSTS), address=address, window=4
            )
            for host in range(HOSTS)
        ]
        for host in hosts * 2:
            next(host)
        wait_until_idle()
        before = processor_seconds()
        for _ in range(steps):
            for host in hosts:
                next(host)
        together.append(seconds_since(before))
        for host in hosts:
            host.close()
    print(
        f"{HOSTS} hosts with a sequencer: {min(together):.2f} s of processor time, one host alone: "
        f"{min(alone):.2f} s, ratio {min(together) / min(alone):.2f}"
    )


def main(rounds: int = 3, cases: str = "function,batches,hosts") -> int:
    """Run all measurements on a cluster of this machine."""
    sys.path.insert(0, str(ROOT))
    client: Any = importlib.import_module("packages.grain-ray.tests.ray_clusters.client")
    with (
        tempfile.TemporaryDirectory() as folder,
        client.running_cluster(pathlib.Path(folder)) as cluster,
    ):
        executors = {
            "processes": "processes",
            "ray": grain_ray.RayExecutor(address=cluster.address, num_workers=2),
        }
        numbers = grain.MapDataset.range(10**6)
        run: dict[str, Callable[[], None]] = {
            "function": lambda: compare(
                "function",
                numbers.map(slow_function).to_iter_dataset(),
                executors,
                (60, 400),
                rounds,
            ),
            "batches": lambda: compare(
                "batches",
                numbers.map(image).batch(64).to_iter_dataset(),
                executors,
                (10, 60),
                rounds,
            ),
            "hosts": lambda: measure_hosts(cluster.address, rounds),
        }
        for case in cases.split(","):
            run[case]()
    return 0


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:2]), *sys.argv[2:3]))
