"""Measurement of one program, in the process of the library that runs it.

    python -m benchmarks.wide.measure

The protocol is that of `benchmarks.serve`: requests and answers are lines of JSON.
"""

from __future__ import annotations

import gc
import itertools
import json
import os
import pathlib
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from benchmarks.machine import field
from benchmarks.serve import explain, private_stdout, write_line
from benchmarks.wide import elements, execution, operations, states
from benchmarks.wide.case import Kind, Program

COLLECTIONS = [
    elements.elements,
    elements.batches,
    elements.lookups,
    operations.filters,
    operations.components,
    operations.streams,
    operations.packing,
    execution.threads,
    execution.processes,
    execution.loaders,
    states.descriptions,
    states.restoring,
    states.states,
    states.memory,
]
PROGRAMS = {program.name: program for found in COLLECTIONS for program in found.programs}

WARM_UP = 0.3
"""The fraction of the measured time that passes before it."""
LONGER = 2
"""Programs that wait are measured so many times longer, and as long before: buffers fill first."""
LONGEST = 8.0
"""Seconds after which a program is measured by what it has done."""


def measure(program: Program, seconds: float) -> dict[str, float | None]:
    """Return the value of a program, and that of its loop without a library."""
    if program.kind is Kind.PEAK:
        return {"value": _peak_of(program.name), "limit": None}
    value = _rate(program, program.make, seconds)
    limit = None if program.limit is None else _rate(program, program.limit, seconds / 2)
    return {"value": value, "limit": limit}


def _rate(program: Program, make: Callable[[], Any], seconds: float) -> float:
    clock = time.perf_counter if program.waits else time.process_time
    step, close = _steps(make)
    seconds *= LONGER if program.waits else 1
    try:
        gc.collect()
        _take(step, clock, seconds * (1 if program.waits else WARM_UP))
        count, passed = _take(step, clock, seconds)
        return count * program.per / passed
    finally:
        close()


def _steps(make: Callable[[], Any]) -> tuple[Callable[[], Any], Callable[[], Any]]:
    """Return the function that is measured, and the one that ends it."""
    made = make()
    if not isinstance(made, Iterable):
        return made, lambda: None
    opened: list[Iterator[Any]] = []

    def outputs() -> Iterator[Any]:
        again: Iterable[Any] = made
        while True:
            iterator = iter(again)
            opened[:] = [iterator]
            yield next(iterator)
            yield from iterator
            # An iterator can be used only once.
            again = make() if iterator is again else again

    def close() -> None:
        for iterator in opened:
            if hasattr(iterator, "close"):
                iterator.close()

    return outputs().__next__, close


def _take(step: Callable[[], Any], clock: Callable[[], float], seconds: float) -> tuple[int, float]:
    """Take outputs until so much time has passed; return their number and the time."""
    taken, stride = 0, 1
    start, started = clock(), time.perf_counter()
    while True:
        before = clock()
        for _ in itertools.repeat(None, stride):
            step()
        taken += stride
        now = clock()
        if now - start >= seconds or time.perf_counter() - started > LONGEST:
            return taken, max(now - start, 1e-9)
        if now - before < seconds / 50:
            stride = min(2 * stride, 4096)


def _peak_of(name: str) -> float:
    """Measure a peak in a new process, which has imported the library before."""
    command = [sys.executable, "-m", "benchmarks.wide.measure", "--peak", name]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return float(done.stdout.split()[-1])


def _print_peak(name: str) -> None:
    program = PROGRAMS[name]
    # The modules and tables that any program needs do not count.
    next(iter(elements.elements.programs[4].make()))
    run = program.make()
    # The highest amount so far is that of the parent, until it is set back.
    pathlib.Path("/proc/self/clear_refs").write_text("5")
    before = _highest_memory()
    run()
    print(max(_highest_memory() - before, 0.1))


def _highest_memory() -> float:
    """Return the highest amount of memory of this process so far, in MiB."""
    found = field("/proc/self/status", "VmHWM")
    if found is None:
        raise OSError("the peak of memory is measured on Linux only")
    return int(found.split()[0]) / 1024


def _parse_flags() -> None:
    """Parse the flags of absl, which google/grain reads."""
    try:
        from absl import flags
    except ImportError:
        return
    flags.FLAGS(sys.argv[:1])


def _listed() -> list[dict[str, str]]:
    return [
        {"name": program.name, "group": program.group, "unit": program.unit}
        for program in PROGRAMS.values()
    ]


def main() -> None:
    """Answer requests until there are no more."""
    _parse_flags()
    if sys.argv[1:2] == ["--peak"]:
        _print_peak(sys.argv[2])
        return
    out = private_stdout()
    write_line(out, ready={"python": platform.python_version()})
    requests = os.fdopen(os.dup(0), "r")
    for line in requests:
        request = json.loads(line)
        answer: dict[str, Any]
        try:
            if "list" in request:
                answer = {"value": _listed()}
            else:
                answer = {**measure(PROGRAMS[request["case"]], request["seconds"])}
        except Exception as error:
            answer = {"error": explain(error)}
        write_line(out, **answer)
    # Threads of a library may not end.
    os._exit(0)


if __name__ == "__main__":
    main()
