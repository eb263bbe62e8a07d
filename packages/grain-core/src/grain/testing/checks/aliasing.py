"""Who owns an element: the one who read it, and nobody else."""

from __future__ import annotations

from grain.testing.compare import expect_same_all, overwrite, snapshot
from grain.testing.subject import Subject


def check_elements_not_overwritten(subject: Subject) -> None:
    """An element that was given does not change when others are read.

    Give each element memory of its own, not a buffer that the next read fills again.
    """
    instance = subject.fresh()
    held, as_given = [], []
    for element in subject.read_live(instance):
        held.append(element)
        as_given.append(snapshot(element))
    subject.read(instance)
    expect_same_all(as_given, held, "an element that was kept while others were read")


def check_elements_not_aliased(subject: Subject) -> None:
    """Writing into an element changes nothing that is read later.

    Return copies, or arrays that are not writeable, of what is kept inside.
    """
    instance = subject.fresh()
    for element in subject.read_live(instance):
        overwrite(element)
    expect_same_all(subject.elements, subject.read(instance), "after writing into what was read")
