"""Picklable: before and after use, across processes, and without the data."""

from __future__ import annotations

import pickle
from typing import Any

import cloudpickle

from grain.testing.case import CaseKind
from grain.testing.compare import expect_same_all
from grain.testing.subject import NotApplicable, Subject

_GROWTH = 4096
"""Bytes that a pickle may gain by reading: room for a cached length or offset, not for records."""

_LARGER_GROWTH = 256
"""Bytes that the pickle of a larger source may have more: room for longer names and numbers."""


def check_pickle_new_instance(subject: Subject) -> None:
    """Check that a new instance can be pickled, and its copy returns the same elements.

    Use picklable attributes, or exclude the others in `__getstate__`.
    """
    instance = subject.fresh()
    copy = _copied(instance, "a new instance")
    expect_same_all(subject.elements, subject.read(copy), "a copy of a new instance")


def check_pickle_used_instance(subject: Subject) -> None:
    """Check that an instance can be pickled after use, and its copy returns the same elements.

    Exclude open files, locks and caches in `__getstate__`, and reopen them on first use.
    """
    instance = subject.fresh()
    subject.read(instance)
    copy = _copied(instance, "a used instance")
    expect_same_all(subject.elements, subject.read(copy), "a copy of a used instance")
    expect_same_all(subject.elements, subject.read(instance), "an instance after being pickled")


def check_pickle_across_processes(subject: Subject) -> None:
    """Check that an instance unpickled in a new process returns the same elements.

    Pickle all data, or the paths to find it again. Module variables, file descriptors and other
    objects of this process do not exist in a new one.
    """
    elements = subject.subprocess.sent.read("reading a pickled instance")
    expect_same_all(subject.elements, elements, "an instance sent to another process")


def check_pickle_size(subject: Subject) -> None:
    """Check that a pickle refers to the data instead of containing it: its size is bounded, also after use.

    Exclude records and caches in `__getstate__`. For a source that exists only in memory, raise
    the case's `pickle_bytes`.
    """
    instance = subject.fresh()
    fresh = _size(instance)
    limit = subject.case.pickle_bytes
    assert fresh <= limit, f"the pickle of a new instance has {fresh} bytes; the limit is {limit}."
    subject.read(instance)
    used = _size(instance)
    assert used <= fresh + _GROWTH, (
        f"reading {len(subject.elements)} elements made the pickle grow from {fresh} to {used} bytes."
    )


def check_pickle_growth(subject: Subject) -> None:
    """Check that the size of a pickle does not grow with the number of elements.

    Exclude indexes and offsets in `__getstate__`, and read or compute them again on first use.
    """
    if subject.case.make_larger is None:
        raise NotApplicable("the case has no make_larger")
    source, larger = subject.fresh(), subject.fresh(subject.case.make_larger)
    if subject.case.kind is CaseKind.MAP_SOURCE:
        assert len(larger) >= 10 * max(1, len(source)), (
            f"make_larger returned {len(larger)} records; make returned {len(source)}, so expected"
            f" {10 * max(1, len(source))} or more."
        )
    small, large = _size(source), _size(larger)
    assert large <= small + _LARGER_GROWTH, (
        f"the pickle has {small} bytes, and {large} bytes for a larger source."
    )


def _copied(instance: Any, what: str) -> Any:
    try:
        return pickle.loads(_dumps(instance))
    except Exception as error:
        raise AssertionError(f"{what} cannot be pickled: {error!r}.") from error


def _dumps(instance: Any) -> bytes:
    # Worker processes receive by cloudpickle what pickle refuses, such as a lambda.
    try:
        return pickle.dumps(instance)
    except Exception:
        return bytes(cloudpickle.dumps(instance))  # type: ignore[no-untyped-call]


def _size(instance: Any) -> int:
    try:
        return len(_dumps(instance))
    except Exception:  # other checks report that it cannot be pickled
        return 0
