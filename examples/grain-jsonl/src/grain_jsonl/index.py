"""Where the lines of a file begin: found by reading it once, or in an index file beside it."""

from __future__ import annotations

import contextlib
import os

import numpy as np
import numpy.typing as npt

Offsets = npt.NDArray[np.int64]

_CHUNK = 16 * 2**20
_NEWLINE = ord("\n")


def index_path(path: str) -> str:
    """The index file that belongs to a file of lines."""
    return f"{path}.offsets.npy"


def write_index(path: str | os.PathLike[str]) -> str:
    """Writes the index file for a file of lines and returns its path.

    With it, a source opens at once and processes share it; without it, each source reads the whole
    file when it is made, and carries what it found.
    """
    path = os.fspath(path)
    unfinished = f"{index_path(path)}.{os.getpid()}.part"
    try:
        with open(unfinished, "wb") as file:
            np.save(file, find_lines(path))
        os.replace(unfinished, index_path(path))
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(unfinished)
        raise
    return index_path(path)


def read_index(path: str) -> Offsets | None:
    """The index file's offsets, if there is one and it is of the file as it is now."""
    try:
        offsets: Offsets = np.load(index_path(path), mmap_mode="r")
    except (FileNotFoundError, ValueError, EOFError):
        return None
    fits = offsets.dtype == np.int64 and offsets.ndim == 1 and len(offsets)
    return offsets if fits and offsets[-1] == os.path.getsize(path) else None


def find_lines(path: str) -> Offsets:
    """Where each line begins that is not empty, and at the end the size of the file.

    Line i lies between the numbers i and i + 1. Empty lines belong to the line before them, which
    does not mind: JSON may end in white space.
    """
    begins = [np.zeros(1, np.int64)]
    with open(path, "rb") as file:
        size = 0
        while chunk := file.read(_CHUNK):
            newlines = np.flatnonzero(np.frombuffer(chunk, np.uint8) == _NEWLINE)
            begins.append(newlines + (size + 1))
            size += len(chunk)
        candidates = np.concatenate(begins)
        candidates = candidates[candidates < size]
        # An empty line begins where it ends, at its newline.
        lengths = np.diff(np.append(candidates, size))
        empty = np.zeros(len(candidates), bool)
        for place in np.flatnonzero(lengths <= 2).tolist():
            file.seek(int(candidates[place]))
            empty[place] = not file.read(int(lengths[place])).strip()
    return np.append(candidates[~empty], size)
