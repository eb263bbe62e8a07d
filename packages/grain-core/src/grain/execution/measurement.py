"""Running a dataset for a moment: how fast its elements come, and what memory that takes."""

from __future__ import annotations

import dataclasses
import os
import pathlib
import time
from collections.abc import Callable
from typing import Any, Protocol

from grain import tree
from grain.dataset.base import IterDataset

Clock = Callable[[], float]

# Elements that come in large blocks may need so many times longer, to be counted in fair number.
_PATIENCE = 3


@dataclasses.dataclass(frozen=True, kw_only=True)
class Measurement:
    """What was seen while a dataset was read.

    Attributes:
      elements: how many elements were counted.
      seconds: how long they took.
      nbytes: memory of the largest element.
      worker_bytes: memory of the worker processes, what they share divided among them (PSS); None
        where the system does not tell.
      whole: whether these were all elements of the dataset.
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
    """Reads a dataset for about as long as it is told, and tells what it saw."""

    def __call__(self, ds: IterDataset[Any], *, seconds: float, samples: int) -> Measurement:
        """Reads `samples` elements and those that come in the time after them."""


@dataclasses.dataclass(frozen=True)
class Stopwatch:
    """Measures by reading; `clock` tells the seconds, `memory` what some processes take."""

    clock: Clock = time.perf_counter
    children: Callable[[], frozenset[int]] = lambda: child_processes()
    memory: Callable[[frozenset[int]], int | None] = lambda pids: memory_of(pids)

    def __call__(self, ds: IterDataset[Any], *, seconds: float, samples: int) -> Measurement:
        """Counts what comes after the first `samples` elements, which pay for the start."""
        others = self.children()
        started = self.clock()
        with ds.__iter__() as iterator:
            nbytes, warm = 0, 0
            while warm < samples:
                try:
                    nbytes = max(nbytes, tree.nbytes(next(iterator)))
                except StopIteration:
                    # Too few to tell the start from the rest.
                    return Measurement(
                        elements=warm,
                        seconds=self.clock() - started,
                        nbytes=nbytes,
                        worker_bytes=self.memory(self.children() - others),
                        whole=True,
                    )
                warm += 1
            counted, ended, element = 0, False, None
            begun = self.clock()
            end, latest = begun + seconds, begun + _PATIENCE * seconds
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
            taken = self.clock() - begun
            if counted:
                nbytes = max(nbytes, tree.nbytes(element))
            else:  # There were as many as the start was to have.
                counted, taken = warm, self.clock() - started
            return Measurement(
                elements=counted,
                seconds=taken,
                nbytes=nbytes,
                worker_bytes=self.memory(self.children() - others),
                whole=ended,
            )


def child_processes() -> frozenset[int]:
    """The processes that this one started and that still run; none where the system does not tell."""
    found: set[int] = set()
    for task in pathlib.Path("/proc/self/task").glob("*/children"):
        try:
            found.update(map(int, task.read_text().split()))
        except OSError:  # A thread that has just ended.
            continue
    return frozenset(found)


def memory_of(pids: frozenset[int]) -> int | None:
    """What processes take, in bytes; what they share is divided among them."""
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
    """How many processors this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # Not on every system.
        return os.cpu_count() or 1
