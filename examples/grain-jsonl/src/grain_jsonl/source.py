"""Random access to the lines of JSON-lines files.

The contract with grain is `__len__`, `__getitem__` and `__getitems__`. A good source also pickles
without its open files, can be read from many threads, has a `repr` that is the same in every process,
and names the file and line in its errors.
"""

from __future__ import annotations

import glob
import hashlib
import json
import operator
import os
import threading
import weakref
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, SupportsIndex

import numpy as np
import numpy.typing as npt

from grain_jsonl.index import Offsets, find_lines, pack, read_index, unpack


class JsonLinesFileError(ValueError):
    """A file that is not JSON lines, or has changed."""


class JsonLinesDataSource:
    """The lines of one or many JSON-lines files, parsed.

    Args:
        paths: A path, a pattern such as `"/data/*.jsonl"`, or a sequence of these.

    Example:
        source = JsonLinesDataSource("/data/*.jsonl")
        dataset = grain.MapDataset.source(source).shuffle(seed=0).batch(32)
    """

    def __init__(self, paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]]) -> None:
        entries = [paths] if isinstance(paths, (str, os.PathLike)) else paths
        self._paths = [file for path in entries for file in _expand(path)]
        if not self._paths:
            raise ValueError(f"Expected at least one JSON-lines file, got {paths!r}.")
        # Taken before the files are read: a file that changes meanwhile is refused later.
        self._identities = {path: _identity(os.stat(path)) for path in self._paths}
        # Offsets that were found are pickled; offsets of index files are read again.
        self._offsets: dict[str, Offsets] = {}
        self._indexed: dict[str, Offsets] = {}
        counts = [len(self._offsets_of(path)) - 1 for path in self._paths]
        # File f holds the lines from _starts[f] to _starts[f + 1].
        self._starts = np.cumsum([0, *counts], dtype=np.int64)
        self._files = _OpenFiles()

    def _offsets_of(self, path: str) -> Offsets:
        if path in self._offsets:
            return self._offsets[path]
        indexed = self._indexed.get(path)
        if indexed is None:
            indexed = read_index(path)
            if indexed is None:
                return self._offsets.setdefault(path, find_lines(path))
            self._indexed[path] = indexed
        return indexed

    def __len__(self) -> int:
        return int(self._starts[-1])

    def __getitem__(self, index: SupportsIndex) -> Any:
        index = operator.index(index)
        if not 0 <= index < len(self):
            raise self._index_error(index)
        return self.__getitems__([index])[0]

    def __getitems__(self, indices: Sequence[int] | npt.NDArray[np.integer[Any]]) -> list[Any]:
        """Return lines in the order of `indices`; consecutive lines are read together."""
        wanted = np.asarray(indices)
        if wanted.size == 0:
            return []
        if wanted.ndim != 1 or wanted.dtype.kind not in "iu":
            raise TypeError(f"indices must be a flat sequence of integers, got {indices!r}.")
        order = np.argsort(wanted, kind="stable")
        for end in (wanted[order[0]], wanted[order[-1]]):
            if not 0 <= end < len(self):
                raise self._index_error(int(end))
        lines = wanted[order].astype(np.int64)
        out: list[Any] = [None] * len(lines)
        # A range of lines ends where a line is left out, and at the end of a file.
        files = np.searchsorted(self._starts, lines, side="right") - 1
        breaks = (np.diff(lines) > 1) | (np.diff(files) > 0)
        for lines_of_range in np.split(np.arange(len(lines)), np.flatnonzero(breaks) + 1):
            file = int(files[lines_of_range[0]])
            numbers = (lines[lines_of_range] - self._starts[file]).tolist()
            values = self._read(file, numbers)
            for position, value in zip(order[lines_of_range], values, strict=True):
                out[position] = value
        return out

    def _index_error(self, index: int) -> IndexError:
        return IndexError(f"Index {index} is outside of a source of {len(self)} lines.")

    def _read(self, file: int, numbers: list[int]) -> Iterator[Any]:
        """Yield the lines of one file with these numbers, which are consecutive or repeat."""
        path = self._paths[file]
        offsets = self._offsets_of(path)
        begin, end = int(offsets[numbers[0]]), int(offsets[numbers[-1] + 1])
        if self._files.pid != os.getpid():
            # A forked child would share the file positions of the parent, and its lock.
            self._files = _OpenFiles()
        data = self._files.read(path, begin, end, self._identities[path])
        for number in numbers:
            line = data[int(offsets[number]) - begin : int(offsets[number + 1]) - begin]
            try:
                yield json.loads(line)
            except ValueError as error:
                raise JsonLinesFileError(
                    f"Line {number + 1} (empty lines not counted) of {path} is not JSON: {error}. "
                    "Correct or remove the line."
                ) from error

    def close(self) -> None:
        """Close open files, index files included; reading opens them again."""
        self._files.close()
        self._indexed = {}

    def __enter__(self) -> JsonLinesDataSource:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def __getstate__(self) -> dict[str, Any]:
        offsets = {path: pack(offsets) for path, offsets in self._offsets.items()}
        return {**self.__dict__, "_offsets": offsets, "_indexed": {}, "_files": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        offsets = {path: unpack(*packed) for path, packed in state["_offsets"].items()}
        self.__dict__.update(state, _offsets=offsets, _files=_OpenFiles())

    def __repr__(self) -> str:
        # Stored in checkpoints and compared on restore: no addresses or times; other data, other text.
        sizes = [(os.path.basename(path), self._identities[path].size) for path in self._paths]
        digest = hashlib.sha1(repr(sizes).encode(), usedforsecurity=False).hexdigest()[:16]
        return f"JsonLinesDataSource(files={len(sizes)}, lines={len(self)}, digest={digest})"


class _Identity(NamedTuple):
    """Size and modification time of a file, which change when it is written again."""

    size: int
    modified_ns: int


def _identity(status: os.stat_result) -> _Identity:
    return _Identity(status.st_size, status.st_mtime_ns)


def _expand(path: str | os.PathLike[str]) -> list[str]:
    text = os.fspath(path)
    if os.path.isfile(text):
        return [text]
    if os.path.isdir(text):
        raise IsADirectoryError(
            f"{text} is a directory: give its files, for instance as"
            f" {os.path.join(text, '*.jsonl')!r}."
        )
    found = sorted(filter(os.path.isfile, glob.glob(text, recursive=True)))
    if not found:
        raise FileNotFoundError(f"There is no file {text!r}: check the path or pattern.")
    return found


# There may be more files than a process may have open.
_MAX_OPEN = 64


class _OpenFiles:
    """The open files of one process; the least recently used is closed first."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self._lock = threading.Lock()
        self._open: dict[str, Any] = {}
        # Not `__del__`: in a reference cycle the files might be finalized before this object.
        weakref.finalize(self, _close_all, self._open)

    def read(self, path: str, begin: int, end: int, expected: _Identity) -> bytes:
        """Return the bytes of a file from `begin` to `end`, if the file has not changed."""
        with self._lock:
            file = self._open.pop(path, None)
            if file is None:
                while len(self._open) >= _MAX_OPEN:
                    self._open.pop(next(iter(self._open))).close()
                file = open(path, "rb")  # noqa: SIM115
            self._open[path] = file  # at the end: closed last
            file.seek(begin)
            data: bytes = file.read(end - begin)
            # After the read, so that a file that is written meanwhile is refused.
            found = _identity(os.fstat(file.fileno()))
        if found != expected:
            if found.size != expected.size:
                change = f"is {found.size} bytes long, but was {expected.size}"
            else:
                change = "was written again, and had other contents"
            raise JsonLinesFileError(
                f"{path} {change} when this source was created: the file has changed. Create the "
                "source again; a checkpoint of the old file does not match the new one."
            )
        return data

    def close(self) -> None:
        """Close all files, between reads of other threads."""
        with self._lock:
            while self._open:  # one by one, so that Ctrl-C leaves no closed file in the dict
                self._open.popitem()[1].close()


def _close_all(files: dict[str, Any]) -> None:
    # No reader is left, so no lock is needed; in a forked child it might never be released.
    for file in files.values():
        file.close()
