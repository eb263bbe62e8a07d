"""Offsets of the lines of a file, found by reading it once or read from an index file beside it."""

from __future__ import annotations

import contextlib
import os
from typing import Any

import numpy as np
import numpy.typing as npt

Offsets = npt.NDArray[np.int64]

_READ_BYTES = 16 * 2**20
_NEWLINE = ord("\n")


def index_path(path: str) -> str:
    """Return the path of the index file of a file."""
    return f"{path}.offsets.npy"


def write_index(path: str | os.PathLike[str]) -> str:
    """Write the index file of a file and return its path.

    With it, a source opens immediately and processes share the index; without it, each source reads
    the whole file when it is created, and its pickle contains the offsets.
    """
    path = os.fspath(path)
    temporary = f"{index_path(path)}.{os.getpid()}.part"
    try:
        with open(temporary, "wb") as file:
            np.save(file, find_lines(path))
        os.replace(temporary, index_path(path))
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        raise
    return index_path(path)


def read_index(path: str) -> Offsets | None:
    """Return the offsets of the index file, or None if there is none that matches the file."""
    try:
        offsets: Offsets = np.load(index_path(path), mmap_mode="r")
    except (FileNotFoundError, ValueError, EOFError):
        return None
    data, index = os.stat(path), os.stat(index_path(path))
    valid = offsets.dtype == np.int64 and offsets.ndim == 1 and len(offsets)
    # An index that is older than the file describes other lines, even if the sizes agree.
    current = data.st_mtime_ns <= index.st_mtime_ns
    return offsets if valid and current and offsets[-1] == data.st_size else None


def find_lines(path: str) -> Offsets:
    """Return the offset of each line that is not empty, followed by the size of the file.

    Line i lies between the offsets i and i + 1. Empty lines are part of the line before them, since
    JSON may end in white space.
    """
    starts = [np.zeros(1, np.int64)]
    with open(path, "rb") as file:
        size = 0
        while chunk := file.read(_READ_BYTES):
            newlines = np.flatnonzero(np.frombuffer(chunk, np.uint8) == _NEWLINE)
            starts.append(newlines + (size + 1))
            size += len(chunk)
        candidates = np.concatenate(starts)
        candidates = candidates[candidates < size]
        lengths = np.diff(np.append(candidates, size))
        empty = np.zeros(len(candidates), bool)
        for line in np.flatnonzero(lengths <= 2).tolist():
            file.seek(int(candidates[line]))
            empty[line] = not file.read(int(lengths[line])).strip()
    return np.append(candidates[~empty], size)


def pack(offsets: Offsets) -> tuple[int, npt.NDArray[np.unsignedinteger[Any]]]:
    """Return offsets as the first offset and line lengths, which take a fraction of the memory."""
    lengths = np.diff(offsets)
    return int(offsets[0]), lengths.astype(np.min_scalar_type(lengths.max(initial=0)))


def unpack(first: int, lengths: npt.NDArray[np.unsignedinteger[Any]]) -> Offsets:
    """Return the offsets that `pack` packed."""
    return np.cumsum(np.append(first, lengths.astype(np.int64)), dtype=np.int64)
