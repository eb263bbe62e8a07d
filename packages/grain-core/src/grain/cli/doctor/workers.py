"""Trial of a worker process, in a subprocess with a time limit."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

from grain.cli.doctor.finding import Finding, Level

LIMIT_SECONDS = 120.0
SLOW_SECONDS = 10.0

PROGRAM = """
import time
import grain

if __name__ == "__main__":
    started = time.monotonic()
    dataset = grain.MapDataset.range(8).batch(4).to_iter_dataset()
    workers = grain.MultiprocessingOptions(num_workers=1)
    with iter(dataset.mp_prefetch(workers)) as batches:
        assert [batch.tolist() for batch in batches] == [[0, 1, 2, 3], [4, 5, 6, 7]]
    print(time.monotonic() - started)
"""


def findings() -> Iterator[Finding]:
    """Yield the finding about worker processes."""
    yield finding()


def finding(program: str = PROGRAM, limit: float = LIMIT_SECONDS) -> Finding:
    """Start a worker process and read elements from it."""
    # `-P`: another check reports modules that the working directory shadows.
    command = [sys.executable, "-P", "-c", program]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=limit, stdin=subprocess.DEVNULL
        )
    except subprocess.TimeoutExpired:
        return _failed(f"no elements within {limit:g} seconds")
    except OSError as error:
        return _failed(f"could not be started: {error}")
    if done.returncode:
        lines = done.stderr.strip().splitlines() or ["no message"]
        return _failed(f"ended with {done.returncode}: {lines[-1]}")
    seconds = float(done.stdout.split()[-1])
    if seconds > SLOW_SECONDS:
        return Finding(
            name="worker process",
            detail=f"works, but took {seconds:.1f} s to start",
            level=Level.NOTE,
            advice="The machine is busy, or imports are slow: see `python -X importtime -c 'import"
            " grain'`.",
        )
    return Finding(name="worker process", detail=f"works, {seconds:.1f} s from start to end")


def _failed(what: str) -> Finding:
    return Finding(
        name="worker process",
        detail=what,
        level=Level.PROBLEM,
        advice="Check the limits of processes (ulimit -u) and memory, and the container's security"
        " profile. To run without worker processes, set worker_count=0 or num_workers=0.",
    )
