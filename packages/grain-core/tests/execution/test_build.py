"""Iterators of a plan: opaque classes, which open their parents themselves."""

from __future__ import annotations

import threading
from typing import Any

import pytest

import grain
from grain.execution.build import build
from grain.execution.plan import plan
from grain.execution.worker_session import WorkerSession

from ..helpers.pipelines import with_workers
from .executors import InlineTasks, iterate_inline
from .pipelines import rows


class Twice(grain.IterDataset):
    """An opaque class that opens its parent twice, under another name and as one of several."""

    def __init__(self, parent: grain.IterDataset):
        super().__init__(parent)
        self._kept = parent
        self._all = [parent, parent]

    def __iter__(self) -> grain.DatasetIterator:
        return iter(grain.IterDataset.mix([self._kept.map(abs), self._all[1]]))


class Counting(grain.IterDataset):
    """An opaque class that writes to itself when it is iterated, and keeps a dataset over its parent."""

    openings = 0
    doubled: grain.IterDataset | None = None

    def __iter__(self) -> grain.DatasetIterator:
        self.openings += 1
        self.last_thread = threading.get_ident()
        if self.doubled is None:
            self.doubled = self._parent.map(lambda x: 2 * x)
        return self.doubled.__iter__()


def test_an_opaque_class_may_open_its_parent_more_than_once() -> None:
    dataset = Twice(rows(6).map(abs))
    executor = InlineTasks()
    session = WorkerSession(executor)
    assert list(build(plan(dataset), session)) == list(dataset)
    # Both were computed by workers, among them a stage that the class itself has put on its parent.
    assert executor.submitted > 5


def test_an_opaque_class_is_iterated_itself_and_keeps_what_it_writes() -> None:
    dataset = Counting(rows(6))
    for openings in (1, 2):
        executor = InlineTasks()
        assert list(iterate_inline(dataset, executor)) == [0, 2, 4, 6, 8, 10]
        assert executor.submitted > 0
        assert dataset.openings == openings
        assert dataset.last_thread == threading.get_ident()


def test_what_an_opaque_class_wrote_with_worker_processes_stays() -> None:
    dataset = Counting(rows(6))
    for openings in (1, 2):
        assert list(with_workers(dataset, 1)) == [0, 2, 4, 6, 8, 10]
        assert dataset.openings == openings


def test_an_opaque_class_holds_its_own_parents_again_after_it_was_opened() -> None:
    parent = rows(6)
    dataset = Twice(parent)
    iterator = iterate_inline(dataset)
    assert dataset.parents == (parent,)
    assert dataset._kept is parent
    assert dataset._all == [parent, parent]
    assert len(list(iterator)) == 12


def test_a_dataset_that_an_opaque_class_keeps_does_not_hold_a_session_that_has_ended() -> None:
    dataset = Counting(rows(6))
    session = WorkerSession(InlineTasks())
    assert next(build(plan(dataset), session)) == 0
    session.close()
    assert list(dataset) == [0, 2, 4, 6, 8, 10]
    dataset = Counting(rows(6))
    assert list(dataset) == list(iterate_inline(dataset))


def test_an_opaque_class_that_cannot_be_opened_holds_its_own_parents_again() -> None:
    class Refusing(grain.IterDataset):
        def __iter__(self) -> Any:
            self.seen = next(iter(self._parent))
            raise LookupError("no such file")

    dataset = Refusing(parent := rows(3))
    with pytest.raises(LookupError, match="no such file"):
        iterate_inline(dataset)
    assert dataset.parents == (parent,)
    assert dataset.seen == 0


def test_threads_that_open_one_opaque_class_each_use_their_own_session() -> None:
    dataset = Counting(rows(4))
    executors = [InlineTasks() for _ in range(8)]
    together = threading.Barrier(len(executors), timeout=60)
    seen: list[list[int]] = []

    def read(executor: InlineTasks) -> None:
        together.wait()
        seen.append(list(iterate_inline(dataset, executor)))

    threads = [threading.Thread(target=read, args=(executor,)) for executor in executors]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == [[0, 2, 4, 6]] * 8
    assert dataset.openings == 8
    assert all(executor.submitted > 0 for executor in executors)
