"""Which worker computes the tasks of an affinity, and which parts workers must hold."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from grain.execution.processes.local_worker import LocalWorker


class Loss(NamedTuple):
    """The loss of a worker, as far as it concerns one task or affinity."""

    worker: int
    cause: object
    started: bool


class Bindings:
    """The worker of each affinity.

    Tasks of one affinity may depend on the tasks before them in the same worker. So when that worker is lost,
    all tasks of the affinity are lost, also those submitted later, until a caller has learned of it from
    `TaskLost`; then the affinity is bound to another worker.
    """

    def __init__(self) -> None:
        self._workers: dict[int, LocalWorker] = {}
        self._losses: dict[int, Loss] = {}

    def loss(self, affinity: int) -> Loss | None:
        """Return the loss of the affinity's worker, if no caller has learned of it yet."""
        return self._losses.get(affinity)

    def worker(self, affinity: int) -> LocalWorker | None:
        """Return the worker of an affinity, if it is bound."""
        return self._workers.get(affinity)

    def bind(self, affinity: int, workers: Iterable[LocalWorker]) -> LocalWorker:
        """Bind an affinity to the worker with the fewest affinities."""
        bound = list(self._workers.values())
        worker = min(workers, key=bound.count)
        self._workers[affinity] = worker
        return worker

    def unbind(self, worker: LocalWorker, loss: Loss) -> None:
        """Record the loss of a worker."""
        for affinity in [a for a, bound in self._workers.items() if bound is worker]:
            self._losses[affinity] = loss
            del self._workers[affinity]

    def acknowledge(self, affinity: int) -> None:
        """Record that a caller has learned of the loss."""
        self._losses.pop(affinity, None)


class Part(NamedTuple):
    """A definition."""

    number: int
    content: bytes
    affinity: int | None
    sequence: int


class Parts:
    """The definitions of a pool, in order.

    Attributes:
        sequence: Number of definitions for all workers so far.
    """

    def __init__(self) -> None:
        self.sequence = 0
        self._parts: dict[int, Part] = {}

    def add(self, number: int, content: bytes, affinity: int | None) -> Part:
        """Record a definition."""
        self.sequence += affinity is None
        part = self._parts[number] = Part(number, content, affinity, self.sequence)
        return part

    def remove(self, number: int) -> Part | None:
        """Drop a definition and return it, if there is one."""
        return self._parts.pop(number, None)

    def of(self, affinity: int | None) -> Iterator[Part]:
        """Return the definitions of an affinity, or those for all workers."""
        return (part for part in list(self._parts.values()) if part.affinity == affinity)
