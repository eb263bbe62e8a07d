"""Resources: files and threads are released."""

from __future__ import annotations

import dataclasses
import gc
import os
import threading
import time

from grain.testing.compare import expect_same_all
from grain.testing.subject import Subject

_FOLDERS = ("/proc/self/fd", "/dev/fd")
_ROUNDS = 3
_POLL_SECONDS = 0.005
_SETTLE_FRACTION = 0.05
"""The part of a check's time limit in which threads that are ending must have ended."""


def check_no_leak_per_read(subject: Subject) -> None:
    """Check that repeated reading leaks no open files and no threads.

    Keep files open and reuse them, or close them with `with` before `__getitem__` returns.
    """
    instance = subject.fresh()
    subject.read(instance)
    before = _resources_after_collection()
    for _ in range(_ROUNDS):
        subject.read(instance)
    _expect_no_leak(subject, before, f"after {_ROUNDS} more passes")


def check_no_leak_per_instance(subject: Subject) -> None:
    """Check that an instance that is garbage-collected leaks no open files and no threads.

    Close files in `__del__` or with `weakref.finalize`, and keep no reference to the instance in a
    thread or module variable.
    """
    for _ in range(2):  # libraries create shared resources on first use
        subject.read(subject.fresh())
    before = _resources_after_collection()
    for _ in range(_ROUNDS):
        subject.read(subject.fresh())
    _expect_no_leak(subject, before, f"after {_ROUNDS} more instances were made, read and deleted")


def check_close_releases_resources(subject: Subject) -> None:
    """Check that `close()` releases files and threads at once and is idempotent, and `with` calls it.

    Close files and drop them; let `__exit__` call `close()` and `__enter__` return `self`.
    """
    subject.read(subject.fresh())
    before = _resources_after_collection()
    source = subject.fresh()
    with source as entered:
        assert entered is source, f"`with source as s` bound {entered!r}, not the source."
        expect_same_all(subject.elements, subject.read(source), "inside `with`")
    _expect_no_leak(subject, before, "after `with`, while the source is still referenced")
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
    before = _resources_after_collection()
    dataset = subject.fresh()
    iterator = iter(dataset)
    next(iterator, None)
    for call in ("first", "second"):
        try:
            iterator.close()
        except Exception as error:
            raise AssertionError(f"the {call} close() raised {error!r}.") from error
    _expect_no_leak(subject, before, "after close(), while the iterator is still referenced")
    del iterator


@dataclasses.dataclass(frozen=True)
class _Resources:
    """What is open: threads by identity, since others may end meanwhile, and the number of files."""

    threads: frozenset[threading.Thread]
    files: int | None

    def growth_to(self, later: _Resources) -> str:
        """Return what grew, as a part of a sentence, or nothing."""
        kept = len(self.threads & later.threads)
        if len(later.threads) > kept:
            return f"threads grew from {kept} to {len(later.threads)}"
        if self.files is not None and later.files is not None and later.files > self.files:
            return f"open files grew from {self.files} to {later.files}"
        return ""


def _resources_after_collection() -> _Resources:
    gc.collect()
    return _open_resources()


def _open_resources() -> _Resources:
    folder = next(filter(os.path.isdir, _FOLDERS), None)
    files = None if folder is None else len(os.listdir(folder))
    return _Resources(threads=frozenset(threading.enumerate()), files=files)


def _expect_no_leak(subject: Subject, before: _Resources, when: str) -> None:
    """Raise unless there are as few files and threads as before; threads may take a moment to end."""
    gc.collect()
    deadline = time.monotonic() + _SETTLE_FRACTION * subject.case.check_timeout
    while growth := before.growth_to(_open_resources()):
        if not growth.startswith("threads") or time.monotonic() > deadline:
            raise AssertionError(f"the number of {growth} {when}.")
        time.sleep(_POLL_SECONDS)
