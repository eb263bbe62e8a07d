"""Deterministic: again, in a fresh instance, in another process, in another order, in threads."""

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
    """Reading an element once more gives the same.

    Make an element of its index or input alone: no clock, no counter, no random numbers.
    """
    instance = subject.fresh()
    if subject.case.kind is CaseKind.ITER_SOURCE:
        subject.read(instance)
        expect_same_all(subject.elements, subject.read(instance), "the second time")
        return
    for place in _order(subject):
        first, second = (subject.read(instance, [place])[0] for _ in range(2))
        expect_same(first, second, f"element {place}, read twice")


def check_repeatable_across_instances(subject: Subject) -> None:
    """Another instance made in the same way gives the same elements.

    Share nothing between instances that reading changes, and draw nothing at random when made.
    """
    for _ in range(2):
        expect_same_all(subject.elements, subject.read(subject.fresh()), "another instance")


def check_repeatable_across_processes(subject: Subject) -> None:
    """An instance made in another process, with another hash seed, gives the same elements.

    Sort what comes out of sets, directories and `glob`; use no `hash()` of text and no `id()`.
    """
    there = subject.subprocess.made.read("making and reading in another process")
    expect_same_all(subject.elements, there, "an instance made in another process")


def check_read_order_independent(subject: Subject) -> None:
    """An element does not depend on what was read before it.

    Seek before every read, and keep nothing from one read that the next one needs.
    """
    order = _order(subject)
    by_place = dict(zip(order, subject.elements, strict=True))
    shuffled = random.Random(0).sample(order, len(order))
    for other in (order[::-1], shuffled, order[1::2] + order[::2]):
        actual = subject.read(subject.fresh(), other)
        for place, element in zip(other, actual, strict=True):
            expect_same(by_place[place], element, f"element {place}, read in another order")


def check_concurrent_reads(subject: Subject) -> None:
    """One instance gives the same elements to several threads at a time.

    Hold a lock around what reads share, such as the position in a file, or give each thread its own.
    """
    instance = subject.fresh()
    order = _order(subject)
    by_place = dict(zip(order, subject.elements, strict=True))
    faults: list[str] = []
    start = threading.Barrier(_THREADS)

    def work(number: int) -> None:
        start.wait()
        for turn in range(_ROUNDS):
            places = random.Random(number * _ROUNDS + turn).sample(order, len(order))
            for place in places:
                try:
                    found = difference(by_place[place], _one(subject, instance, place))
                except Exception as error:
                    found = f"raised {error!r}"
                if found is not None:
                    faults.append(f"element {place}, read in a thread: {found}")
                    return

    threads = [threading.Thread(target=work, args=(number,)) for number in range(_THREADS)]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)  # threads take turns far more often, so that races show
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert not faults, f"{faults[0]}. ({len(faults)} of {_THREADS} threads saw something wrong.)"


def _one(subject: Subject, instance: Any, place: int) -> Any:
    [element] = subject.read_live(instance, [place])
    return snapshot(element)


def _order(subject: Subject) -> list[int]:
    places: Sequence[int] = (
        subject.indices
        if subject.case.kind is CaseKind.MAP_SOURCE
        else range(len(subject.case.inputs))
    )
    return list(places)
