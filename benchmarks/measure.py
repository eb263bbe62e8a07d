"""Measurement of a value or a cost, in the process of the peer that is measured."""

from __future__ import annotations

import collections
import gc
import itertools
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Iterable
from typing import Any

from benchmarks import cost
from benchmarks.cases import Case, Measure
from benchmarks.cost import Cost
from benchmarks.processes import descendants, proportional_set_size

CHECKED_OUTPUTS = 3
WARM_UP = 0.3
"""The fraction of the measured time, or outputs, that passes before it, so that buffers are full."""
CLOCK_EVERY = 0.001
LEAST_OUTPUTS = 32
LONGEST = 5
"""Threads and workers that each make a whole batch finish many at about the same time. To measure more than
one such burst, `LEAST_OUTPUTS` outputs are awaited, but not longer than this many times the measured time."""
MEMORY_OUTPUTS = 12

Make = Callable[[], Iterable[Any]]


def measure(case: Case, make: Make, imports: str, seconds: float) -> float:
    """Return one value of one case.

    Args:
        case: What is measured.
        make: Describes the peer's pipeline.
        imports: The statement that imports the peer.
        seconds: How long a rate is measured.
    """
    gc.collect()
    if case.measure is Measure.RATE:
        return rate(case, make, seconds)
    if case.measure is Measure.FIRST:
        return first(case, make)
    if case.measure is Measure.MEMORY:
        return memory(case, make)
    return import_time(imports)


def measure_cost(case: Case, make: Make, imports: str, outputs: int, counter: cost.Counter) -> Cost:
    """Return the cost of one element of a rate, and of the whole of any other case.

    Args:
        case: What is measured.
        make: Describes the peer's pipeline.
        imports: The statement that imports the peer.
        outputs: How many outputs of a rate are measured: a fixed amount of work.
        counter: Counts instructions.
    """
    gc.collect()
    if case.measure is Measure.IMPORT:
        start = cost.read(counter)
        import_time(imports)
        return cost.read(counter) - start
    stream = endlessly(make)
    start = cost.read(counter)
    try:
        if case.measure is Measure.FIRST:
            skip(stream, case.outputs)
            return cost.read(counter) - start
        case.check(list(itertools.islice(stream, CHECKED_OUTPUTS)))
        skip(stream, int(outputs * WARM_UP))
        start = cost.read(counter)
        skip(stream, outputs)
        return (cost.read(counter) - start).per(outputs * case.per_output)
    finally:
        stream.close()


def endlessly(make: Make) -> Generator[Any, None, None]:
    """Yield the outputs of a pipeline, restarted when it ends; close it when closed."""
    while True:
        iterator = iter(make())
        empty = True
        try:
            for output in iterator:
                empty = False
                yield output
        finally:
            close = getattr(iterator, "close", None)
            if close is not None:
                close()
            del iterator
        if empty:
            raise ValueError("the pipeline has no outputs")


def skip(stream: Iterable[Any], count: int) -> None:
    """Take outputs and drop them."""
    collections.deque(itertools.islice(stream, count), maxlen=0)


def rate(case: Case, make: Make, seconds: float) -> float:
    """Return elements per second, after the first outputs were checked and buffers have filled."""
    stream = endlessly(make)
    try:
        case.check(list(itertools.islice(stream, CHECKED_OUTPUTS)))
        warmed, passed = take_for(stream, seconds * WARM_UP, 1)
        # The clock is read so rarely that it costs nothing, and often enough to end in time.
        stride = max(1, int(warmed / passed * CLOCK_EVERY))
        taken, passed = take_for(stream, seconds, stride, LEAST_OUTPUTS)
        return taken * case.per_output / passed
    finally:
        stream.close()


def take_for(
    stream: Iterable[Any], seconds: float, stride: int, least: int = 1
) -> tuple[int, float]:
    """Take outputs for at least `seconds`; return their number and the time."""
    taken = 0
    start = time.perf_counter()
    while True:
        skip(stream, stride)
        taken += stride
        passed = time.perf_counter() - start
        if (passed >= seconds and taken >= least) or passed >= seconds * LONGEST:
            return taken, passed


def first(case: Case, make: Make) -> float:
    """Return the seconds to the first outputs, the pipeline's description included."""
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
    """Return the MiB of each worker in the steady state."""
    before = set(descendants())
    stream = endlessly(make)
    try:
        case.check(list(itertools.islice(stream, CHECKED_OUTPUTS)))
        skip(stream, MEMORY_OUTPUTS)
        found = [process for process in descendants() if process not in before]
        if len(found) < case.workers:
            raise ValueError(f"expected {case.workers} workers, {len(found)} processes run")
        return sum(map(proportional_set_size, found)) / case.workers / 2**20
    finally:
        stream.close()


def import_time(statement: str) -> float:
    """Return the seconds that a new process takes for an import statement, and to exit."""
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", statement], check=True)
    return time.perf_counter() - start
