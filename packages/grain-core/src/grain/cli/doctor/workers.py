"""Whether a worker process starts and gives elements: tried in a process of its own, with a limit."""

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
    """The one thing there is to find."""
    yield finding()


def finding(program: str = PROGRAM, limit: float = LIMIT_SECONDS) -> Finding:
    """Starts a worker process and reads through it."""
    # Without the folder one is in: what it shadows is another check's.
    command = [sys.executable, "-P", "-c", program]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=limit, stdin=subprocess.DEVNULL
        )
    except subprocess.TimeoutExpired:
        return _failed(f"gave nothing within {limit:g} seconds")
    except OSError as error:
        return _failed(f"cannot be started: {error}")
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
    return Finding(name="worker process", detail=f"works, started and done in {seconds:.1f} s")


def _failed(what: str) -> Finding:
    return Finding(
        name="worker process",
        detail=what,
        level=Level.PROBLEM,
        advice="Look at limits on processes (ulimit -u) and memory, and at what the container"
        " forbids. Without worker processes, use worker_count=0 or num_workers=0.",
    )
