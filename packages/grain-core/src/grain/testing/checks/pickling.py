"""Picklable: by the standard library, before and after use, across processes, and without the data."""

from __future__ import annotations

import importlib
import io
import itertools
import mmap
import operator
import os
import pickle
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import cloudpickle
import numpy as np

from grain.testing.compare import expect_same_all
from grain.testing.subject import NotApplicable, Subject
from grain.testing.subprocess_probe import dumps

_GROWTH = 4096
"""Bytes that a pickle may gain by reading: room for a cached length or offset, not for records."""

_LARGER_GROWTH = 256
"""Bytes that the pickle of a larger source may have more: room for longer names and numbers."""

_PIECES = 32
_PIECE_BYTES = 24
"""Number and size of the pieces of a file that are searched in a pickle."""

_DISTINCT_BYTES = 6
"""Different bytes in a piece that can be searched: zeros and padding are in many pickles."""

_LONGEST_PIECE = 128
"""Bytes of a piece that needs to be longer, to have enough different ones."""

_LARGE_PART = 0.4
"""The part of a file, in one run, that is more than a header: half of a file always has as much."""

_LEAST_PART_BYTES = 256
"""Bytes of a part that count: names and a schema, which a source has anyway, may be part of a small file."""


def check_pickle_new_instance(subject: Subject) -> None:
    """Check that a new instance can be pickled, and its copy returns the same elements.

    Use picklable attributes, or exclude the others in `__getstate__`.
    """
    instance = subject.fresh()
    copy = _copied(instance, "a new instance")
    expect_same_all(subject.elements, subject.read(copy), "a copy of a new instance")


def check_standard_pickle(subject: Subject) -> None:
    """Check that the standard library's `pickle` accepts an instance of an importable class, also after use.

    Exclude open files, locks and connections in `__getstate__`, and use functions of a module instead
    of lambdas: cloudpickle accepts more, but torch, Ray and `multiprocessing` do not all use it.
    """
    instance = subject.fresh()
    if (reason := _not_importable(instance)) is not None:
        raise NotApplicable(reason)
    for what in ("a new instance", "a used instance"):
        try:
            pickle.loads(pickle.dumps(instance))
        except Exception as error:
            raise AssertionError(f"pickle refuses {what}: {error!r}.") from error
        subject.read(instance)


def check_pickle_without_file_contents(subject: Subject) -> None:
    """Check that a pickle contains neither an open file nor the contents of a file of the case.

    Keep the path, and open the file on first use; a memory map and a file object that cloudpickle
    accepts are copied into the pickle.
    """
    instance = subject.fresh()
    subject.read(instance)
    is_open = sorted(set(_open_files_in(instance)))
    assert not is_open, f"the pickle of a used instance contains {', '.join(is_open)}."
    data = _pickled(instance)
    files = {path: _pieces_of(path) for path in _files_of(subject.directory)}
    if files and not any(files.values()):
        raise NotApplicable(
            "no file of the case can be recognized in a pickle: they are empty or shorter than"
            f" {_PIECE_BYTES} bytes, or have hardly any different bytes; let prepare write more"
        )
    for path, pieces in files.items():
        size = os.path.getsize(path)
        found = [piece.content in data for piece in pieces]
        is_whole = bool(pieces) and all(found)
        is_large = _longest_run(pieces, found) >= max(_LARGE_PART * size, _LEAST_PART_BYTES)
        is_kept = is_whole or is_large
        assert not is_kept, (
            f"the pickle of a used instance has {len(data)} bytes and contains"
            f" {'the' if is_whole else 'a large part of the'} contents of"
            f" {os.path.basename(path)!r}, a file of {size} bytes."
        )


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
    if subject.case.kind.is_indexed:
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
        return pickle.loads(dumps(instance))
    except Exception as error:
        raise AssertionError(f"{what} cannot be pickled: {error!r}.") from error


def _pickled(instance: Any) -> bytes:
    try:
        return dumps(instance)
    except Exception:  # other checks report that it cannot be pickled
        return b""


def _size(instance: Any) -> int:
    return len(_pickled(instance))


def _not_importable(instance: Any) -> str | None:
    """Return why the class, or the function, of an instance cannot be imported; None when it can."""
    named = instance if hasattr(instance, "__qualname__") else type(instance)
    module, name = named.__module__, named.__qualname__
    if module == "__main__" or "<" in name:
        return f"{module}.{name} cannot be imported by another process"
    try:
        found: Any = importlib.import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError):
        return f"{module}.{name} cannot be imported by another process"
    return None


class _FileFinder(cloudpickle.Pickler):
    """Pickler that lists the files and memory maps among the objects it is given."""

    def __init__(self, found: list[str]):
        super().__init__(io.BytesIO())  # type: ignore[no-untyped-call]
        self._found = found

    def persistent_id(self, pickled: Any) -> None:
        """Look at an object before it is pickled."""
        in_memory = isinstance(pickled, (io.BytesIO, io.StringIO))
        if isinstance(pickled, (io.IOBase, mmap.mmap)) and not in_memory:
            name = getattr(pickled, "name", None)
            self._found.append(f"the {type(pickled).__name__} of {name!r}" if name else "a mmap")
        elif isinstance(pickled, np.memmap):
            self._found.append(f"the data of a numpy.memmap of {pickled.filename!r}")


def _open_files_in(instance: Any) -> Iterator[str]:
    found: list[str] = []
    try:
        _FileFinder(found).dump(instance)  # type: ignore[no-untyped-call]
    except Exception:  # other checks report that it cannot be pickled
        found.clear()
    yield from found


def _files_of(directory: str | None) -> Iterator[str]:
    for folder, _, names in os.walk(directory or os.devnull):
        yield from (os.path.join(folder, name) for name in names)


class _Piece(NamedTuple):
    """A piece of a file."""

    offset: int
    content: bytes


def _pieces_of(path: str) -> list[_Piece]:
    """Return pieces from the start to the end of a file; none if it has too few to recognize it by."""
    last = os.path.getsize(path) - _PIECE_BYTES
    offsets = sorted({last * n // (_PIECES - 1) for n in range(_PIECES)}) if last >= 0 else []
    pieces = []
    with open(path, "rb") as file:
        for offset in offsets:
            file.seek(max(0, offset + _PIECE_BYTES - _LONGEST_PIECE))
            start = file.tell()
            piece = _distinct_piece(file.read(2 * _LONGEST_PIECE), offset - start)
            if piece is not None:
                pieces.append(_Piece(start + piece.offset, piece.content))
    return pieces if len(pieces) >= min(len(offsets), _PIECES // 4) else []


def _distinct_piece(data: bytes, offset: int) -> _Piece | None:
    """Return the shortest piece at an offset that can be searched; None if there is none.

    It grows to the right, and at the end of the data to the left.
    """
    for length in range(_PIECE_BYTES, min(_LONGEST_PIECE, len(data)) + 1):
        start = max(0, min(offset, len(data) - length))
        content = data[start : start + length]
        if len(set(content)) >= _DISTINCT_BYTES:
            return _Piece(start, content)
    return None


def _longest_run(pieces: Sequence[_Piece], found: Sequence[bool]) -> int:
    """Return the bytes from the first to the last piece of the longest run of pieces that were found.

    No run has less than two pieces: a single one may be in a pickle for another reason.
    """
    longest = -1
    pairs = zip(pieces, found, strict=True)
    for is_found, group in itertools.groupby(pairs, key=operator.itemgetter(1)):
        run = [piece for piece, _ in group]
        if is_found and len(run) >= min(2, len(pieces)):
            end = max(piece.offset + len(piece.content) for piece in run)
            longest = max(longest, end - run[0].offset)
    return longest
