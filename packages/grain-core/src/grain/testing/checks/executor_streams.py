"""Executors: pipelines give the same elements, states and errors as without workers, and resume."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import numpy as np

from grain.dataset.base import DatasetIterator, IterDataset, MapDataset
from grain.execution.build import build
from grain.execution.plan import plan
from grain.execution.worker_session import WorkerSession
from grain.testing.compare import expect_same, snapshot
from grain.testing.executor_probe import closing
from grain.testing.subject import Subject


class CountingLines(IterDataset[int]):
    """A stream that cannot be divided: numbers, with a state that counts them."""

    def __init__(self, count: int):
        super().__init__()
        self.count = count

    def __iter__(self) -> DatasetIterator[int]:
        return CountingLinesIterator(self.count)


class CountingLinesIterator(DatasetIterator[int]):
    """The iterator of `CountingLines`; every seventh number cannot be read."""

    def __init__(self, count: int):
        super().__init__()
        self._count = count
        self._next = 0

    def __next__(self) -> int:
        if self._next >= self._count:
            raise StopIteration
        self._next += 1
        if self._next % 7 == 0:
            raise ValueError(f"line {self._next} cannot be read")
        return self._next

    def get_state(self) -> dict[str, int]:
        return {"next": self._next}

    def set_state(self, state: dict[str, int]) -> None:
        self._next = state["next"]


def _row(number: int) -> dict[str, np.ndarray[Any, Any]]:
    return {"pixels": np.full((32, 32, 3), number % 251, np.uint8), "label": np.array([number])}


def _not_thirteen(number: int) -> int:
    if number == 13:
        raise ValueError("thirteen")
    return number


def _is_odd(number: int) -> bool:
    return number % 2 == 1


def _sum(batch: Any) -> int:
    return int(np.sum(batch))


def _fused() -> IterDataset[Any]:
    return MapDataset.range(60).shuffle(3).map(_row).batch(4).to_iter_dataset()


def _ordered() -> IterDataset[Any]:
    return MapDataset.range(60).to_iter_dataset().filter(_is_odd).batch(4).map(_sum)


def _failing() -> IterDataset[Any]:
    return MapDataset.range(30).to_iter_dataset().map(_not_thirteen).batch(4)


def _stream() -> IterDataset[Any]:
    return CountingLines(40).map(abs)


def check_fused_stream(subject: Subject) -> None:
    """Check that blocks computed by workers give the stream and the states of one process.

    Return the results of tasks unchanged; order, resubmission and states are the session's concern.
    """
    _compare(subject, _fused)


def check_ordered_stream(subject: Subject) -> None:
    """Check that a pipeline with an ordered operation gives the stream and the states of one process.

    Pass the arguments of tasks to the job's function unchanged.
    """
    _compare(subject, _ordered)


def check_failing_stream(subject: Subject) -> None:
    """Check that an element that fails raises the same error at the same position, and the stream continues.

    Return results that carry an error as they are; raise only what the job's function raises.
    """
    _compare(subject, _failing)


def check_undivided_stream(subject: Subject) -> None:
    """Check that a stream read by one worker gives the elements, states and errors of one process.

    Compute tasks with equal affinity in the order of submission, and each of them once.
    """
    _compare(subject, _stream)


def _compare(subject: Subject, make: Callable[[], IterDataset[Any]]) -> None:
    with contextlib.closing(make().__iter__()) as alone:
        expected = _steps(alone)
    session = WorkerSession(subject.fresh(), buffer_size=2)
    with closing(session), closing(build(plan(make()), session)) as iterator:
        found = _steps(iterator)
        expect_same(expected, found, "the steps (kind, element or error, state)")
        for position in (len(expected) // 2, 1, 0):
            iterator.set_state(expected[position][2])
            rest = _steps(iterator)
            expect_same(expected[position + 1 :], rest, f"the steps after state {position}")


def _steps(iterator: Any) -> list[tuple[str, Any, Any]]:
    """Return what happens at each step up to the end, and the state after it."""
    steps: list[tuple[str, Any, Any]] = []
    while True:
        try:
            kind, value = "element", snapshot(next(iterator))
        except StopIteration:
            return [*steps, ("end", None, iterator.get_state())]
        except Exception as error:
            kind, value = "error", f"{type(error).__name__}: {error}"
        steps.append((kind, value, iterator.get_state()))
