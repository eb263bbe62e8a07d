"""Resources: files and threads are released."""

from __future__ import annotations

import gc
import os
import threading
from typing import Any

from grain.testing.compare import expect_same_all
from grain.testing.subject import Subject

_FOLDERS = ("/proc/self/fd", "/dev/fd")
_ROUNDS = 3


def check_no_leak_per_read(subject: Subject) -> None:
    """Check that repeated reading leaks no open files and no threads.

    Keep files open and reuse them, or close them with `with` before `__getitem__` returns.
    """
    instance = subject.fresh()
    subject.read(instance)
    before = _open_resources()
    for _ in range(_ROUNDS):
        subject.read(instance)
    _expect_no_leak(before, f"after {_ROUNDS} more passes")


def check_no_leak_per_instance(subject: Subject) -> None:
    """Check that an instance that is garbage-collected leaks no open files and no threads.

    Close files in `__del__` or with `weakref.finalize`, and keep no reference to the instance in a
    thread or module variable.
    """
    for _ in range(2):  # libraries create shared resources on first use
        subject.read(subject.fresh())
    before = _open_resources()
    for _ in range(_ROUNDS):
        subject.read(subject.fresh())
    _expect_no_leak(before, f"after {_ROUNDS} more instances were made, read and deleted")


def check_close_releases_resources(subject: Subject) -> None:
    """Check that `close()` releases files and threads at once and is idempotent, and `with` calls it.

    Close files and drop them; let `__exit__` call `close()` and `__enter__` return `self`.
    """
    subject.read(subject.fresh())
    before = _open_resources()
    source = subject.fresh()
    with source as entered:
        assert entered is source, f"`with source as s` bound {entered!r}, not the source."
        expect_same_all(subject.elements, subject.read(source), "inside `with`")
    _expect_no_leak(before, "after `with`, while the source is still referenced")
    for _ in range(2):
        try:
            source.close()
        except Exception as error:
            raise AssertionError(f"close() after close() raised {error!r}.") from error


def check_iterator_close_releases_resources(subject: Subject) -> None:
    """Check that an iterator's `close()` releases files and threads at once and is idempotent.

    Override `close()`, call `super().close()`, and close the files that the iterator opened.
    """
    subject.read(subject.fresh())
    before = _open_resources()
    dataset = subject.fresh()
    iterator = iter(dataset)
    next(iterator, None)
    for call in ("first", "second"):
        try:
            iterator.close()
        except Exception as error:
            raise AssertionError(f"the {call} close() raised {error!r}.") from error
    _expect_no_leak(before, "after close(), while the iterator is still referenced")
    del iterator


def _open_resources() -> dict[str, int]:
    gc.collect()
    counts = {"threads": threading.active_count()}
    for folder in _FOLDERS:
        if os.path.isdir(folder):
            counts["open files"] = len(os.listdir(folder))
            break
    return counts


def _expect_no_leak(before: dict[str, int], when: str) -> None:
    after: dict[str, Any] = _open_resources()
    for what, count in before.items():
        assert after[what] <= count, (
            f"the number of {what} grew from {count} to {after[what]} {when}."
        )
