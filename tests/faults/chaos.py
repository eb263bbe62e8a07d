"""Chaos: kill a random worker several times per second, while the history checker follows the stream.

    python -m tests.faults.chaos --seconds 60 --interval 0.2 --seed 1

prints what was injected and what came out; the exit code is 1 if a stream, a state or a handle was wrong.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import signal
import threading
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import grain
from grain._policy import use_policy

from .history import Checker, Stream, close, record
from .interrupts import held, wait_for_release
from .pipelines import INLINE, Lines, busy, odd, picture, plus_one

M = grain.MapDataset


def _offloaded() -> grain.IterDataset:
    return M.range(200).to_iter_dataset(INLINE).filter(odd).map(busy).batch(4)


# One pipeline for each way in which workers are used.
PIPELINES: dict[str, Callable[[], grain.IterDataset]] = {
    "fused": lambda: M.range(240).shuffle(3).map(busy).batch(4).to_iter_dataset(INLINE),
    "random draws": lambda: (
        M.range(200).seed(1).map(busy).random_map(lambda x, rng: x + rng.random())
        .to_iter_dataset(INLINE)
    ),
    "shared memory": lambda: M.range(200).map(busy).map(picture).to_iter_dataset(INLINE),
    "offloaded functions": _offloaded,
    "stream": lambda: Lines(5, 200).map(plus_one).map(busy).batch(3),
}  # fmt: skip


def workers_of(pid: int) -> list[int]:
    """Return the worker processes of a process: children of the process that forks them, or its own."""
    own = children_of(pid)
    return [child for parent in own for child in children_of(parent)] or own


def children_of(pid: int) -> list[int]:
    """Return the children of a process."""
    found: list[int] = []
    with contextlib.suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            found += map(int, (task / "children").read_text().split())
    return found


class Killer:
    """Sends SIGKILL to a random worker at an interval.

    Attributes:
        kills: how many signals were sent to a running process.
    """

    def __init__(self, interval: float, seed: int):
        self.kills = 0
        self._interval, self._rng = interval, random.Random(seed)
        self._stop = threading.Event()
        self._before = set(workers_of(os.getpid()))
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        while not self._stop.wait(self._interval):
            workers = sorted(set(workers_of(os.getpid())) - self._before)
            if workers:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(self._rng.choice(workers), signal.SIGKILL)
                    self.kills += 1

    def __enter__(self) -> Killer:
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._stop.set()
        self._thread.join()


def follow(checker: Checker, deadline: float) -> None:
    """Read to the end, or until the deadline; compare every element, and the state after each."""
    while time.monotonic() < deadline and checker.advance():
        checker.check_state()


def run(seconds: float, interval: float, seed: int, workers: int = 3) -> dict[str, Any]:
    """Read the pipelines again and again under kills; return the counts."""
    streams: dict[str, Stream] = {name: record(make()) for name, make in PIPELINES.items()}
    before = held()
    counts: dict[str, Any] = {"kills": 0, "elements": 0, "streams": 0, "bad": []}
    options = grain.MultiprocessingOptions(num_workers=workers, max_worker_restarts=10**6)
    deadline = time.monotonic() + seconds
    rng = np.random.default_rng(seed)
    names = list(PIPELINES)
    with Killer(interval, seed) as killer, use_policy(poison_losses=10**6):
        while time.monotonic() < deadline:
            name = names[counts["streams"] % len(names)]
            checker = Checker(streams[name], iter(PIPELINES[name]().mp_prefetch(options)))
            try:
                if rng.random() < 0.3:
                    checker.jump(int(rng.integers(len(streams[name].elements))))
                start = checker.position
                follow(checker, deadline)
                counts["elements"] += checker.position - start
            except Exception as error:
                counts["bad"].append(f"{name}: {type(error).__name__}: {error}")
            finally:
                close(checker.iterator)
            counts["streams"] += 1
        counts["kills"] = killer.kills
    del checker
    left = wait_for_release(before)
    if left:
        counts["bad"].append(f"left behind: {left}")
    return counts


def main() -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--interval", type=float, default=0.2)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workers", type=int, default=3)
    given = parser.parse_args()
    warnings.simplefilter("ignore")  # Each loss is reported.
    counts = run(given.seconds, given.interval, given.seed, given.workers)
    print(
        f"{counts['kills']} processes killed in {given.seconds:g} s, {counts['elements']} elements of "
        f"{counts['streams']} streams with their states compared, {len(counts['bad'])} bad"
    )
    for line in counts["bad"]:
        print(line)
    return 1 if counts["bad"] or not counts["kills"] else 0


if __name__ == "__main__":
    raise SystemExit(main())
