"""Deterministic: across reads, instances, processes and read orders."""

from __future__ import annotations

import random

from grain.testing.compare import expect_same, expect_same_all
from grain.testing.subject import Subject


def check_repeatable_read(subject: Subject) -> None:
    """Check that reading an element again returns the same element.

    Compute an element from its index or input alone: no clock, no counter, no random numbers.
    """
    instance = subject.fresh()
    if subject.case.kind.is_stream:
        subject.read(instance)
        expect_same_all(subject.elements, subject.read(instance), "a second pass")
        return
    for index in subject.order:
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
    order = subject.order
    by_index = dict(zip(order, subject.elements, strict=True))
    shuffled = random.Random(0).sample(order, len(order))
    for other in (order[::-1], shuffled, order[1::2] + order[::2]):
        actual = subject.read(subject.fresh(), other)
        for index, element in zip(other, actual, strict=True):
            expect_same(by_index[index], element, f"element {index}, read in another order")
