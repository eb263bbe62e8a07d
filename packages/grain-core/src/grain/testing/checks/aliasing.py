"""Aliasing: the consumer owns the elements that it has read."""

from __future__ import annotations

from grain.testing.compare import expect_same_all, overwrite, snapshot
from grain.testing.subject import Subject


def check_elements_not_overwritten(subject: Subject) -> None:
    """Check that an element does not change when other elements are read.

    Allocate memory per element; do not return a buffer that the next read overwrites.
    """
    instance = subject.fresh()
    held, snapshots = [], []
    for element in subject.read_live(instance):
        held.append(element)
        snapshots.append(snapshot(element))
    subject.read(instance)
    expect_same_all(snapshots, held, "an element held while others were read")


def check_elements_not_aliased(subject: Subject) -> None:
    """Check that writing into an element does not change later reads.

    Return copies, or read-only arrays, of data that the instance keeps.
    """
    instance = subject.fresh()
    for element in subject.read_live(instance):
        overwrite(element)
    expect_same_all(
        subject.elements, subject.read(instance), "after writing into the elements read before"
    )
