"""Picklable: fresh, after use, into another process, and without dragging the data along."""

from __future__ import annotations

import pickle
from typing import Any

import cloudpickle

from grain.testing.compare import expect_same_all
from grain.testing.subject import Subject

_GROWTH = 4096
"""What a pickle may gain by reading: a remembered length or offset, no records."""


def check_pickle_new_instance(subject: Subject) -> None:
    """A new instance can be pickled, and its copy gives the same elements.

    Keep to picklable attributes, or leave out the others in `__getstate__`.
    """
    instance = subject.fresh()
    copy = _copied(instance, "a new instance")
    expect_same_all(subject.elements, subject.read(copy), "a copy of a new instance")


def check_pickle_used_instance(subject: Subject) -> None:
    """An instance that has been used pickles as a new one does.

    Leave open files, locks and caches out in `__getstate__`, and open them again on first use.
    """
    instance = subject.fresh()
    subject.read(instance)
    copy = _copied(instance, "an instance that has been used")
    expect_same_all(subject.elements, subject.read(copy), "a copy of a used instance")
    expect_same_all(subject.elements, subject.read(instance), "an instance after its pickling")


def check_pickle_across_processes(subject: Subject) -> None:
    """A pickle loads in a new process, and gives the same elements there.

    Carry everything in the pickle, or what finds it again, such as paths. Module variables, file
    descriptors and objects of this process do not exist there.
    """
    there = subject.subprocess.sent.read("reading a pickled instance in another process")
    expect_same_all(subject.elements, there, "an instance sent to another process")


def check_pickle_size(subject: Subject) -> None:
    """A pickle carries what finds the data, not the data: its size is bounded, also after use.

    Drop records and caches in `__getstate__`. A source whose data lives nowhere else may raise the
    case's `pickle_bytes`.
    """
    instance = subject.fresh()
    fresh = _size(instance)
    limit = subject.case.pickle_bytes
    assert fresh <= limit, f"the pickle of a new instance has {fresh} bytes; {limit} are allowed."
    subject.read(instance)
    used = _size(instance)
    assert used <= fresh + _GROWTH, (
        f"the pickle grew from {fresh} to {used} bytes by reading {len(subject.elements)} elements."
    )


def _copied(instance: Any, what: str) -> Any:
    try:
        return pickle.loads(_dumps(instance))
    except Exception as error:
        raise AssertionError(f"{what} cannot be pickled: {error!r}.") from error


def _dumps(instance: Any) -> bytes:
    # Workers get what plain pickle cannot take, such as a lambda, by cloudpickle.
    try:
        return pickle.dumps(instance)
    except Exception:
        return bytes(cloudpickle.dumps(instance))  # type: ignore[no-untyped-call]


def _size(instance: Any) -> int:
    try:
        return len(_dumps(instance))
    except Exception:  # that it does not pickle at all is for other checks to say
        return 0
