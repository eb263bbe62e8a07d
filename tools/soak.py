"""Run pipelines with worker processes for a while, and fail if memory, handles or threads grow.

One iterator runs all the time, as in training. Others are created repeatedly: read to the end, dropped,
closed, restored, interrupted by errors, deprived of a worker. After each round the resources of this
process and its permanent workers are counted; at the end the first samples are compared with the last.

    python tools/soak.py --seconds 60

`--results FILE` also writes the counts as JSON, from which `tools/faults.py` makes a table.
"""

from __future__ import annotations

import argparse
import dataclasses
import faulthandler
import gc
import itertools
import json
import os
import pathlib
import signal
import statistics
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import grain

SECONDS = 600.0
# How much longer the last round may take.
LAST_ROUND_SECONDS = 120.0
# Caches fill during the warm-up; windows after it and at the end are compared.
WARM_UP = 0.25
WINDOW = 0.25
# How much allocators may differ between two samples.
MEMORY_NOISE = 16 << 20

TWO = grain.MultiprocessingOptions(num_workers=2, per_worker_buffer_size=2)


@dataclasses.dataclass(frozen=True)
class Sample:
    """Resources at one moment."""

    seconds: float
    own_memory: int
    workers_memory: int
    handles: int
    workers_handles: int
    threads: int
    processes: int


# --- pipelines ---------------------------------------------------------------------------------


def image(index: int) -> np.ndarray:
    """Return a record large enough for shared memory."""
    return np.full((96, 96, 3), index % 251, np.uint8)


def slow(x: Any) -> Any:
    """Take long enough to be offloaded to a worker."""
    started = time.perf_counter()
    while time.perf_counter() - started < 0.003:
        pass
    return x


def fails_at_50(x: int) -> int:
    """Fail for one of the elements."""
    if x == 50:
        raise ValueError("fifty")
    return x


class Lines(grain.IterDataset):
    """A stream, such as the lines of a file."""

    def __init__(self, count: int):
        super().__init__()
        self.count = count

    def __iter__(self) -> grain.DatasetIterator:
        return LinesIterator(self.count)


class LinesIterator(grain.DatasetIterator):
    """An iterator over line numbers."""

    def __init__(self, count: int):
        super().__init__()
        self._count, self._line = count, 0

    def __next__(self) -> int:
        if self._line == self._count:
            raise StopIteration
        self._line += 1
        return self._line

    def get_state(self) -> dict[str, int]:
        return {"line": self._line}

    def set_state(self, state: dict[str, int]) -> None:
        self._line = state["line"]


def images() -> grain.IterDataset:
    """Return batches of images."""
    return grain.MapDataset.range(400).shuffle(1).map(image).batch(8).to_iter_dataset()


def numbers(count: int = 200) -> grain.IterDataset:
    """Return numbers in order."""
    return grain.MapDataset.range(count).to_iter_dataset()


# --- rounds ------------------------------------------------------------------------------------


def read_to_the_end() -> None:
    """Read everything once."""
    assert sum(len(batch) for batch in images().mp_prefetch(TWO)) == 400


def close_in_the_middle() -> None:
    """Leave a `with` block early, with arrays that outlive it."""
    with iter(images().mp_prefetch(TWO)) as iterator:
        kept = [next(iterator) for _ in range(5)]
    assert all(batch.shape == (8, 96, 96, 3) for batch in kept)


def drop_in_the_middle() -> None:
    """Drop the last reference without `close`."""
    iterator = iter(numbers().filter(lambda x: x % 3).batch(4).mp_prefetch(TWO))
    assert next(iterator).tolist() == [1, 2, 4, 5]


def drop_before_the_start() -> None:
    """Drop workers that are still starting."""
    iterator = iter(images().mp_prefetch(TWO))
    iterator.start_prefetch()


def set_states() -> None:
    """Set states of a running iterator."""
    with iter(numbers().random_map(lambda x, rng: x, seed=1).batch(4).mp_prefetch(TWO)) as iterator:
        states = [iterator.get_state()]
        for _ in range(10):
            next(iterator)
            states.append(iterator.get_state())
        for step in (3, 0, 9, 5):
            iterator.set_state(states[step])
            assert next(iterator)[0] == 4 * step


def continue_after_an_error() -> None:
    """Read the remaining elements after one that fails."""
    with iter(numbers().map(fails_at_50).mp_prefetch(TWO)) as iterator:
        found = []
        while True:
            try:
                found.append(next(iterator))
            except ValueError:
                continue
            except StopIteration:
                break
        assert found == [x for x in range(200) if x != 50]


def interleave_streams() -> None:
    """Open and close streams of an interleave."""
    streams = [Lines(20 + i) for i in range(12)]
    ds = grain.experimental.InterleaveIterDataset(streams, cycle_length=4)
    assert len(list(ds.mp_prefetch(TWO))) == sum(20 + i for i in range(12))


def offload_a_slow_function() -> None:
    """Send elements to workers and back."""
    ds = numbers(80).filter(lambda x: x % 2).batch(2).map(slow)
    assert len(list(ds.mp_prefetch(TWO))) == 20


def offload_a_slow_random_function_that_fails() -> None:
    """Submit prefetched elements again after an error, with other random draws."""
    even = numbers(90).filter(lambda x: x % 2 == 0)
    ds = even.random_map(lambda x, rng: fails_at_50(slow(x)), seed=1)
    succeeded = failed = 0
    with iter(ds.mp_prefetch(TWO)) as iterator:
        while True:
            try:
                next(iterator)
            except StopIteration:
                break
            except ValueError:
                failed += 1
            else:
                succeeded += 1
    assert (succeeded, failed) == (44, 1)


def read_a_loader() -> None:
    """Read a DataLoader."""
    loader = grain.DataLoader(
        data_source=grain.RangeDataSource(0, 100, 1),
        sampler=grain.IndexSampler(num_records=100, num_epochs=1, shuffle=True, seed=1),
        operations=[grain.Batch(4)],
        worker_count=2,
    )
    assert sum(len(batch) for batch in loader) == 100


def lose_a_worker() -> None:
    """Kill a worker, which is replaced."""
    permanent = set(children())
    with (
        iter(numbers(20_000).mp_prefetch(TWO)) as iterator,
        warnings.catch_warnings(record=True) as caught,
    ):
        warnings.simplefilter("always")
        first = next(iterator)
        os.kill(max(set(children()) - permanent), signal.SIGKILL)
        assert [first, *iterator] == list(range(20_000))
    assert all("was lost" in str(warning.message) for warning in caught), caught


ROUNDS: list[Callable[[], None]] = [
    read_to_the_end,
    close_in_the_middle,
    drop_in_the_middle,
    drop_before_the_start,
    set_states,
    continue_after_an_error,
    interleave_streams,
    offload_a_slow_function,
    offload_a_slow_random_function_that_fails,
    read_a_loader,
    lose_a_worker,
]
# Rounds in which something fails, or is abandoned.
FAULTS: list[Callable[[], None]] = [
    lose_a_worker,
    continue_after_an_error,
    offload_a_slow_random_function_that_fails,
    drop_in_the_middle,
    drop_before_the_start,
]


# --- counting ----------------------------------------------------------------------------------


def children(pid: int | None = None) -> list[int]:
    """Return the processes that a process, by default this one, has started, and those that they have."""
    pid = pid or os.getpid()
    try:
        with open(f"/proc/{pid}/task/{pid}/children") as file:
            own = [int(word) for word in file.read().split()]
    except FileNotFoundError:  # It has exited meanwhile.
        return []
    return [found for child in own for found in (child, *children(child))]


def memory_of(pid: int) -> int:
    """Return the memory of a process in bytes, with its share of shared memory.

    Mapped files, such as libraries, are left out: their share depends on other processes.
    """
    with open(f"/proc/{pid}/smaps_rollup") as file:
        sizes = dict(line.split()[:2] for line in file if line.startswith("Pss_"))
    return 1024 * (int(sizes["Pss_Anon:"]) + int(sizes["Pss_Shmem:"]))


def count(started: float) -> Sample:
    """Return the resources of this process and its children."""
    gc.collect()
    own, workers = os.getpid(), children()
    return Sample(
        seconds=time.monotonic() - started,
        own_memory=memory_of(own),
        workers_memory=sum(map(memory_of, workers)),
        handles=len(os.listdir(f"/proc/{own}/fd")),
        workers_handles=sum(len(os.listdir(f"/proc/{pid}/fd")) for pid in workers),
        threads=len(os.listdir(f"/proc/{own}/task")),
        processes=len(workers),
    )


def soak(seconds: float) -> list[Sample]:
    """Run all rounds repeatedly for `seconds`; return a sample after each repetition."""
    started = time.monotonic()
    samples: list[Sample] = []
    shown = started
    with iter(endless_images().mp_prefetch(TWO)) as training:
        while time.monotonic() - started < seconds:
            for each in ROUNDS:
                for batch in itertools.islice(training, 20):
                    assert batch.shape == (8, 96, 96, 3)
                del batch
                each()
            samples.append(count(started))
            if time.monotonic() - shown > 30:
                shown = time.monotonic()
                print(describe(samples[-1]), flush=True)
    return samples


def endless_images() -> grain.IterDataset:
    """Return the pipeline of a long training."""
    ds = grain.MapDataset.range(4000).seed(7).shuffle().map(image).repeat()
    return ds.batch(8).to_iter_dataset()


def describe(sample: Sample) -> str:
    """Return a sample as a line of text."""
    return (
        f"{sample.seconds:6.0f} s  memory {sample.own_memory / 2**20:7.1f} MB, "
        f"workers' {sample.workers_memory / 2**20:7.1f} MB  handles {sample.handles}, "
        f"workers' {sample.workers_handles}  threads {sample.threads}  "
        f"processes {sample.processes}"
    )


def windows(samples: list[Sample]) -> tuple[list[Sample], list[Sample]]:
    """Return the samples to compare: those after the warm-up, and the last ones."""
    first = int(len(samples) * WARM_UP)
    width = max(1, int(len(samples) * WINDOW))
    return samples[first : first + width], samples[-width:]


def growth(samples: list[Sample]) -> Iterator[str]:
    """Yield the resources that grew after the warm-up."""
    early, late = windows(samples)
    for field in ("own_memory", "workers_memory"):
        before = statistics.median(getattr(sample, field) for sample in early)
        after = statistics.median(getattr(sample, field) for sample in late)
        if after - before > MEMORY_NOISE:
            yield f"{field} grew from {before / 2**20:.1f} to {after / 2**20:.1f} MB"
    for field in ("handles", "workers_handles", "threads", "processes"):
        before = max(getattr(sample, field) for sample in early)
        after = min(getattr(sample, field) for sample in late)
        if after > before:
            yield f"{field} grew from {before} to {after}"


def report(samples: list[Sample], found: list[str]) -> dict[str, Any]:
    """Return the counts of a run: rounds by name, and the median of each resource early and late."""
    early, late = windows(samples)
    fields = [field.name for field in dataclasses.fields(Sample) if field.name != "seconds"]
    return {
        "seconds": int(samples[-1].seconds),
        "rounds": len(samples) * len(ROUNDS),
        "samples": len(samples),
        "faults": {each.__name__: len(samples) for each in FAULTS},
        "resources": {
            field: [
                int(statistics.median(getattr(sample, field) for sample in part))
                for part in (early, late)
            ]
            for field in fields
        },
        "bad": found,
    }


def main() -> int:
    """Run the command line; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=SECONDS, help="default: %(default)s")
    parser.add_argument("--results", type=pathlib.Path, help="a file for the counts, as JSON")
    given = parser.parse_args()
    seconds = given.seconds
    # Prints the traceback of a round that hangs, and exits.
    faulthandler.dump_traceback_later(seconds + LAST_ROUND_SECONDS, exit=True)
    samples = soak(seconds)
    faulthandler.cancel_dump_traceback_later()
    if len(samples) < 4:
        print(f"{seconds:g} seconds gave {len(samples)} samples; 4 are required.")
        return 2
    print(describe(samples[0]), describe(samples[-1]), sep="\n")
    found = list(growth(samples))
    if given.results is not None:
        given.results.write_text(json.dumps(report(samples, found)) + "\n")
    rounds = len(samples) * len(ROUNDS)
    print(f"{rounds} rounds: " + ("; ".join(found) or "nothing grows"))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
