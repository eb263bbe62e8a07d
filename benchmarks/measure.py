"""How a value is measured, in the process of the peer that is measured."""

from __future__ import annotations

import collections
import gc
import itertools
import pathlib
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Iterable
from typing import Any

from benchmarks.cases import Case, Measure

CHECKED_OUTPUTS = 3
WARM_UP = 0.3
"""The part of the measured time that passes before it, so that buffers are as full as they will be."""
CLOCK_EVERY = 0.001
LEAST_OUTPUTS = 32
LONGEST = 5
"""Threads and workers that each make a whole batch finish many at about the same time. So as not to measure
one such burst, so many outputs are waited for, but not longer than this many times the measured time."""
MEMORY_OUTPUTS = 12

Make = Callable[[], Iterable[Any]]


def measure(case: Case, make: Make, imports: str, seconds: float) -> float:
    """One value of one case; `make` describes the peer's pipeline, `imports` is how it is imported."""
    gc.collect()
    if case.measure is Measure.RATE:
        return rate(case, make, seconds)
    if case.measure is Measure.FIRST:
        return first(case, make)
    if case.measure is Measure.MEMORY:
        return memory(case, make)
    return import_time(imports)


def endlessly(make: Make) -> Generator[Any, None, None]:
    """The outputs of a pipeline, again from the start when it ends; closes it when closed itself."""
    while True:
        iterator = iter(make())
        ended_at_once = True
        try:
            for output in iterator:
                ended_at_once = False
                yield output
        finally:
            close = getattr(iterator, "close", None)
            if close is not None:
                close()
            del iterator
        if ended_at_once:
            raise ValueError("the pipeline gave nothing")


def skip(stream: Iterable[Any], count: int) -> None:
    """Takes outputs and drops them at once."""
    collections.deque(itertools.islice(stream, count), maxlen=0)


def rate(case: Case, make: Make, seconds: float) -> float:
    """Elements in a second, after the first outputs were checked and buffers have filled."""
    stream = endlessly(make)
    try:
        case.check(list(itertools.islice(stream, CHECKED_OUTPUTS)))
        warmed, passed = take_for(stream, seconds * WARM_UP, 1)
        # The clock is read so seldom that it costs nothing, and often enough to end in time.
        stride = max(1, int(warmed / passed * CLOCK_EVERY))
        taken, passed = take_for(stream, seconds, stride, LEAST_OUTPUTS)
        return taken * case.per_output / passed
    finally:
        stream.close()


def take_for(
    stream: Iterable[Any], seconds: float, stride: int, least: int = 1
) -> tuple[int, float]:
    """How many outputs came in at least that time, and the time."""
    taken = 0
    start = time.perf_counter()
    while True:
        skip(stream, stride)
        taken += stride
        passed = time.perf_counter() - start
        if (passed >= seconds and taken >= least) or passed >= seconds * LONGEST:
            return taken, passed


def first(case: Case, make: Make) -> float:
    """Seconds to the first outputs, the pipeline's description included."""
    start = time.perf_counter()
    stream = endlessly(make)
    try:
        skip(stream, case.outputs - 1)
        output = next(stream)
        passed = time.perf_counter() - start
        case.check([output])
        return passed
    finally:
        stream.close()


def memory(case: Case, make: Make) -> float:
    """MiB for each worker, after it has worked for a while."""
    before = set(descendants())
    stream = endlessly(make)
    try:
        case.check(list(itertools.islice(stream, CHECKED_OUTPUTS)))
        skip(stream, MEMORY_OUTPUTS)
        found = [process for process in descendants() if process not in before]
        if len(found) < case.workers:
            raise ValueError(f"{case.workers} workers were asked for, {len(found)} processes run")
        return sum(map(proportional_set_size, found)) / case.workers / 2**20
    finally:
        stream.close()


def descendants() -> list[int]:
    """The processes that this one has started, and those that they have, by id."""
    parents: dict[int, list[int]] = collections.defaultdict(list)
    for file in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            # The name, in parentheses, may hold anything.
            fields = file.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        parents[int(fields[1])].append(int(file.parent.name))
    found = []
    waiting = [int(pathlib.Path("/proc/self").resolve().name)]
    while waiting:
        children = parents[waiting.pop()]
        found += children
        waiting += children
    return found


def proportional_set_size(process: int) -> int:
    """Bytes that a process holds, each shared page divided by the number of its holders."""
    for line in pathlib.Path(f"/proc/{process}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) * 1024
    raise ValueError(f"process {process} has no Pss")


def import_time(statement: str) -> float:
    """Seconds that a new process takes for an import statement, and to end."""
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", statement], check=True)
    return time.perf_counter() - start
