"""Measurement of a dataset: throughput, element size, memory of its workers."""

from __future__ import annotations

import dataclasses
import os
import pathlib
import time
from collections.abc import Callable
from typing import Any, Protocol

from grain import tree
from grain._policy import current_policy
from grain.dataset.base import IterDataset

Clock = Callable[[], float]


@dataclasses.dataclass(frozen=True, kw_only=True)
class ReadMeasurement:
    """Measurements of reading a dataset.

    Attributes:
        elements: Number of elements counted.
        seconds: Seconds that they took.
        nbytes: Memory of the largest element.
        worker_bytes: Memory of the worker processes, with shared memory divided among them (PSS); None if
            unknown.
        whole: Whether these were all elements of the dataset.
    """

    elements: int
    seconds: float
    nbytes: int
    worker_bytes: int | None = 0
    whole: bool = False

    @property
    def rate(self) -> float:
        """Elements per second."""
        return self.elements / max(self.seconds, 1e-9)


class Measurer(Protocol):
    """Reads a dataset for a given time and returns measurements."""

    def __call__(self, ds: IterDataset[Any], *, seconds: float, samples: int) -> ReadMeasurement:
        """Read `samples` elements, then further elements for `seconds`."""


@dataclasses.dataclass(frozen=True)
class Stopwatch:
    """Measurer that reads the dataset.

    Attributes:
        clock: Returns the time in seconds.
        descendants: Returns the ids of the processes below this one.
        memory: Returns the memory of processes, or None if unknown.
    """

    clock: Clock = time.perf_counter
    descendants: Callable[[], frozenset[int]] = lambda: descendant_processes()
    memory: Callable[[frozenset[int]], int | None] = lambda pids: memory_of(pids)

    def __call__(self, ds: IterDataset[Any], *, seconds: float, samples: int) -> ReadMeasurement:
        """Count the elements after the first `samples`, which include the start-up."""
        others = self.descendants()
        started = self.clock()
        with ds.__iter__() as iterator:
            nbytes, warm = 0, 0
            while warm < samples:
                try:
                    nbytes = max(nbytes, tree.nbytes(next(iterator)))
                except StopIteration:
                    # Too few to separate the start-up.
                    return ReadMeasurement(
                        elements=warm,
                        seconds=self.clock() - started,
                        nbytes=nbytes,
                        worker_bytes=self.memory(self.descendants() - others),
                        whole=True,
                    )
                warm += 1
            counted, ended, element = 0, False, None
            opened, started = started, self.clock()
            # Elements that arrive in large blocks take longer until enough of them are counted.
            end, latest = started + seconds, started + current_policy().tuning_patience * seconds
            while True:
                try:
                    element = next(iterator)
                except StopIteration:
                    ended = True
                    break
                counted += 1
                now = self.clock()
                if now >= latest or (now >= end and counted >= samples):
                    break
            taken = self.clock() - started
            if counted:
                nbytes = max(nbytes, tree.nbytes(element))
            else:  # The dataset ended with the warm-up.
                counted, taken = warm, self.clock() - opened
            return ReadMeasurement(
                elements=counted,
                seconds=taken,
                nbytes=nbytes,
                worker_bytes=self.memory(self.descendants() - others),
                whole=ended,
            )


def descendant_processes() -> frozenset[int]:
    """Return the ids of the processes below this one; empty where the system has no /proc.

    Worker processes may be children of a process that forks them.
    """
    found: set[int] = set()
    unread = [os.getpid()]
    while unread:
        for task in pathlib.Path(f"/proc/{unread.pop()}/task").glob("*/children"):
            try:
                children = set(map(int, task.read_text().split()))
            except OSError:  # A thread or process that has just ended.
                continue
            unread += children - found
            found |= children
    return frozenset(found)


def memory_of(pids: frozenset[int]) -> int | None:
    """Return the memory of processes in bytes, with shared memory divided among them; None if unknown."""
    total = 0
    for pid in pids:
        try:
            lines = pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        except ProcessLookupError:
            continue
        except OSError:
            return None
        total += sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))
    return total


def processors() -> int:
    """Return the number of processors available to this process."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # Not on every system.
        return os.cpu_count() or 1
