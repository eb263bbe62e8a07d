"""The `repr` of a source, which checkpoints hold and compare."""

from __future__ import annotations

import pickle
import re

from grain.testing.subject import Subject

_ADDRESS = re.compile(r"\b0x[0-9a-fA-F]{6,}\b")


def check_repr_without_address(subject: Subject) -> None:
    """`repr(source)` shows no memory address.

    Write a `__repr__` that says what the data is: number of files, length, a digest.
    """
    source = subject.fresh()
    text = repr(source)
    shown = _ADDRESS.search(text) is not None or str(id(source)) in text
    assert not shown, f"repr(source) is {text!r:.200}."


def check_repr_stable(subject: Subject) -> None:
    """`repr(source)` is the same for every instance of the same data, before and after reading.

    Put into it what the data is, not what was done with it: no counters, caches or open files.
    """
    source = subject.fresh()
    text = _ADDRESS.sub("0x…", repr(source))
    subject.read(source)
    for what, other in (
        ("after reading", source),
        ("in another instance", subject.fresh()),
        ("in a copy", _copy(source)),
    ):
        now = _ADDRESS.sub("0x…", repr(other))
        assert now == text, f"repr(source) is {text!r:.200}, and {what} {now!r:.200}."


def check_repr_across_processes(subject: Subject) -> None:
    """`repr(source)` is the same text in every process.

    Use no process id, no random name, and no `hash()` of text, which differs by process: hashlib's
    digests do not.
    """
    text = _ADDRESS.sub("0x…", repr(subject.fresh()))
    for what, sight in (
        ("made there", subject.subprocess.made),
        ("sent there", subject.subprocess.sent),
    ):
        there = _ADDRESS.sub("0x…", sight.text)
        assert sight.error or there == text, (
            f"repr(source) is {text!r:.200}, and in another process, {what}, {there!r:.200}."
        )


def _copy(source: object) -> object:
    try:
        return pickle.loads(pickle.dumps(source))
    except Exception:  # that it does not pickle is for other checks to say
        return source
