"""What is taken is given back: file handles and threads."""

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
    """Reading again and again opens no more files and starts no more threads.

    Keep what is opened and use it again, or close it before `__getitem__` returns, by `with`.
    """
    instance = subject.fresh()
    subject.read(instance)
    before = _held()
    for _ in range(_ROUNDS):
        subject.read(instance)
    _expect_no_more(before, f"after reading everything {_ROUNDS} more times")


def check_no_leak_per_instance(subject: Subject) -> None:
    """An instance that is dropped leaves no open file and no thread behind.

    Close what is open in `__del__` or by `weakref.finalize`, and let no thread or module variable
    hold on to the instance.
    """
    for _ in range(2):  # libraries start what they share on first use
        subject.read(subject.fresh())
    before = _held()
    for _ in range(_ROUNDS):
        subject.read(subject.fresh())
    _expect_no_more(before, f"after {_ROUNDS} more instances were made, read and dropped")


def check_close_releases_resources(subject: Subject) -> None:
    """`close()` gives back files and threads at once, may be called twice, and serves `with`.

    Close what is open and forget it; let `__exit__` call `close()` and `__enter__` return `self`.
    """
    subject.read(subject.fresh())
    before = _held()
    source = subject.fresh()
    with source as entered:
        assert entered is source, f"`with source as s` gave {entered!r}, not the source."
        expect_same_all(subject.elements, subject.read(source), "inside `with`")
    _expect_no_more(before, "after `with`, while the source is still there")
    for _ in range(2):
        try:
            source.close()
        except Exception as error:
            raise AssertionError(f"close() after close() raised {error!r}.") from error


def check_iterator_close_releases_resources(subject: Subject) -> None:
    """An iterator's `close()` gives back files and threads at once, and may be called twice.

    Override `close()`, call `super().close()`, and close what this iterator opened.
    """
    subject.read(subject.fresh())
    before = _held()
    dataset = subject.fresh()
    iterator = iter(dataset)
    next(iterator, None)
    for call in ("first", "second"):
        try:
            iterator.close()
        except Exception as error:
            raise AssertionError(f"the {call} close() raised {error!r}.") from error
    _expect_no_more(before, "after close(), while the iterator is still there")
    del iterator


def _held() -> dict[str, int]:
    gc.collect()
    held = {"threads": threading.active_count()}
    for folder in _FOLDERS:
        if os.path.isdir(folder):
            held["open files"] = len(os.listdir(folder))
            break
    return held


def _expect_no_more(before: dict[str, int], when: str) -> None:
    after: dict[str, Any] = _held()
    for what, count in before.items():
        assert after[what] <= count, f"{count} {what} became {after[what]} {when}."
