"""The `repr` of a source, which checkpoints store and compare."""

from __future__ import annotations

import pickle
import re

from grain.testing.subject import NotApplicable, Subject

_ADDRESS = re.compile(r"\b0x[0-9a-fA-F]{6,}\b")


def check_repr_without_address(subject: Subject) -> None:
    """Check that `repr(source)` contains no memory address.

    Write a `__repr__` that identifies the data: number of files, length, a digest.
    """
    source = subject.fresh()
    text = repr(source)
    shown = _ADDRESS.search(text) is not None or str(id(source)) in text
    assert not shown, f"repr(source) is {text!r:.200}."


def check_repr_stable(subject: Subject) -> None:
    """Check that `repr(source)` is the same for every instance of the same data, before and after reading.

    Show the identity of the data, not the state of the instance: no counters, caches or open files.
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
        assert now == text, f"repr(source) is {text!r:.200}, but {what} {now!r:.200}."


def check_repr_across_processes(subject: Subject) -> None:
    """Check that `repr(source)` is the same text in every process.

    Do not use the process id, random names, or `hash()` of text, which differs between processes;
    use a digest of hashlib.
    """
    text = _ADDRESS.sub("0x…", repr(subject.fresh()))
    result = subject.subprocess
    both = {"made": result.made, "unpickled": result.sent}
    seen = {how: each for how, each in both.items() if not each.error}
    if not seen:
        raise NotApplicable("the source cannot be read in another process")
    for what, observation in seen.items():
        other = _ADDRESS.sub("0x…", observation.text)
        assert other == text, (
            f"repr(source) is {text!r:.200}, but {other!r:.200} when {what} in another process."
        )


def _copy(source: object) -> object:
    try:
        return pickle.loads(pickle.dumps(source))
    except Exception:  # other checks report that it cannot be pickled
        return source
