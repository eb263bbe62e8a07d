"""Deterministic: across reads, instances, processes, read orders and threads."""

from __future__ import annotations

import random
import sys
import threading
from collections.abc import Sequence
from typing import Any

from grain.testing.case import CaseKind
from grain.testing.compare import difference, expect_same, expect_same_all, snapshot
from grain.testing.subject import Subject

_THREADS = 8
_ROUNDS = 4


def check_repeatable_read(subject: Subject) -> None:
    """Check that reading an element again returns the same element.

    Compute an element from its index or input alone: no clock, no counter, no random numbers.
    """
    instance = subject.fresh()
    if subject.case.kind is CaseKind.ITER_SOURCE:
        subject.read(instance)
        expect_same_all(subject.elements, subject.read(instance), "a second pass")
        return
    for index in _order(subject):
        first, second = (subject.read(instance, [index])[0] for _ in range(2))
        expect_same(first, second, f"element {index}, read twice")


def check_repeatable_across_instances(subject: Subject) -> None:
    """Check that two instances made the same way return the same elements.

    Share no mutable state between instances, and draw no random numbers in the constructor.
    """
    for _ in range(2):
        expect_same_all(subject.elements, subject.read(subject.fresh()), "another instance")


def check_repeatable_across_processes(subject: Subject) -> None:
    """Check that an instance made in another process, with another hash seed, returns the same elements.

    Sort the results of sets, directory listings and `glob`; do not use `hash()` of text or `id()`.
    """
    elements = subject.subprocess.made.read("making and reading in another process")
    expect_same_all(subject.elements, elements, "an instance made in another process")


def check_read_order_independent(subject: Subject) -> None:
    """Check that an element does not depend on the elements read before it.

    Seek before every read, and keep no state from one read to the next.
    """
    order = _order(subject)
    by_index = dict(zip(order, subject.elements, strict=True))
    shuffled = random.Random(0).sample(order, len(order))
    for other in (order[::-1], shuffled, order[1::2] + order[::2]):
        actual = subject.read(subject.fresh(), other)
        for index, element in zip(other, actual, strict=True):
            expect_same(by_index[index], element, f"element {index}, read in another order")


def check_concurrent_reads(subject: Subject) -> None:
    """Check that one instance returns the same elements to concurrent threads.

    Guard shared state, such as a file position, with a lock, or keep it per thread.
    """
    instance = subject.fresh()
    order = _order(subject)
    by_index = dict(zip(order, subject.elements, strict=True))
    faults: list[str] = []
    start = threading.Barrier(_THREADS)

    def work(number: int) -> None:
        start.wait()
        for round_ in range(_ROUNDS):
            indices = random.Random(number * _ROUNDS + round_).sample(order, len(order))
            for index in indices:
                try:
                    found = difference(by_index[index], _one(subject, instance, index))
                except Exception as error:
                    found = f"raised {error!r}"
                if found is not None:
                    faults.append(f"element {index}, read in a thread: {found}")
                    return

    threads = [
        threading.Thread(target=work, args=(number,), daemon=True) for number in range(_THREADS)
    ]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)  # switch threads far more often, so that races show
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert not faults, f"{faults[0]}. ({len(faults)} of {_THREADS} threads read a wrong element.)"


def _one(subject: Subject, instance: Any, index: int) -> Any:
    [element] = subject.read_live(instance, [index])
    return snapshot(element)


def _order(subject: Subject) -> list[int]:
    indices: Sequence[int] = (
        subject.indices
        if subject.case.kind is CaseKind.MAP_SOURCE
        else range(len(subject.case.inputs))
    )
    return list(indices)
