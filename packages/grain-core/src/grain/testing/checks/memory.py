"""Who owns an element: the one who read it, and nobody else."""

from __future__ import annotations

from grain.testing.compare import expect_same_all, scribble, snapshot
from grain.testing.subject import Subject


def leaves_what_it_gave_alone(subject: Subject) -> None:
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


def shares_no_memory_with_elements(subject: Subject) -> None:
    """Writing into an element changes nothing that is read later.

    Return copies, or arrays that are not writeable, of what is kept inside.
    """
    instance = subject.fresh()
    for element in subject.read_live(instance):
        scribble(element)
    expect_same_all(subject.elements, subject.read(instance), "after writing into what was read")
