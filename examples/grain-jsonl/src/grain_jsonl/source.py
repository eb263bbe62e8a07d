"""Random access to the lines of JSON-lines files.

The contract with grain is in the methods `__len__`, `__getitem__` and `__getitems__`; the rest is
what makes a source pleasant: it pickles without its open files, reads from many threads at once,
has a `repr` that is the same in every process, and says which file and line is wrong.
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
from typing import Any, SupportsIndex

import numpy as np
import numpy.typing as npt

from grain_jsonl.index import Offsets, find_lines, read_index


class JsonLinesFileError(ValueError):
    """A file that holds no JSON lines, or is not the file it was."""


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
            raise ValueError("Give at least one JSON-lines file.")
        # Offsets from an index file are read again by whoever needs them, others are kept.
        self._offsets: dict[str, Offsets] = {}
        self._indexed: dict[str, Offsets] = {}
        counts = [len(self._offsets_of(path)) - 1 for path in self._paths]
        self._sizes = {path: int(self._offsets_of(path)[-1]) for path in self._paths}
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
            raise self._outside(index)
        return self.__getitems__([index])[0]

    def __getitems__(self, indices: Sequence[int] | npt.NDArray[np.integer[Any]]) -> list[Any]:
        """Many lines, in the order asked for; lines that follow one another are read together."""
        wanted = np.asarray(indices)
        if wanted.size == 0:
            return []
        if wanted.ndim != 1 or wanted.dtype.kind not in "iu":
            raise TypeError(f"indices must be a flat sequence of integers, got {indices!r}.")
        order = np.argsort(wanted, kind="stable")
        for end in (wanted[order[0]], wanted[order[-1]]):
            if not 0 <= end < len(self):
                raise self._outside(int(end))
        lines = wanted[order].astype(np.int64)
        out: list[Any] = [None] * len(lines)
        # A new stretch begins where a line is left out, and where a file ends.
        files = np.searchsorted(self._starts, lines, side="right") - 1
        breaks = (np.diff(lines) > 1) | (np.diff(files) > 0)
        for part in np.split(np.arange(len(lines)), np.flatnonzero(breaks) + 1):
            file = int(files[part[0]])
            numbers = (lines[part] - self._starts[file]).tolist()
            for place, value in zip(order[part], self._read(file, numbers), strict=True):
                out[place] = value
        return out

    def _outside(self, index: int) -> IndexError:
        return IndexError(f"Index {index} is outside of a source of {len(self)} lines.")

    def _read(self, file: int, numbers: list[int]) -> Iterator[Any]:
        """The lines of one file with these numbers, which follow one another or repeat."""
        path = self._paths[file]
        offsets = self._offsets_of(path)
        begin, end = int(offsets[numbers[0]]), int(offsets[numbers[-1] + 1])
        if self._files.pid != os.getpid():
            # A forked child would share the parent's place in each file, and its lock.
            self._files = _OpenFiles()
        data = self._files.read(path, begin, end, self._sizes[path])
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
        """Closes open files, indices too; reading opens them again."""
        self._files.close()
        self._indexed = {}

    def __enter__(self) -> JsonLinesDataSource:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_indexed": {}, "_files": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _files=_OpenFiles())

    def __repr__(self) -> str:
        # A checkpoint holds this text and compares it: no addresses, and other data, other text.
        sizes = [(os.path.basename(path), self._sizes[path]) for path in self._paths]
        digest = hashlib.sha1(repr(sizes).encode(), usedforsecurity=False).hexdigest()[:16]
        return f"JsonLinesDataSource(files={len(sizes)}, lines={len(self)}, digest={digest})"


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


# A process may have some hundred files open, and there may be thousands.
_MOST_OPEN = 64


class _OpenFiles:
    """Files that one process has open, the least recently used closed in favour of others."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self._lock = threading.Lock()
        self._open: dict[str, Any] = {}
        # Not `__del__`: in a cycle of garbage the files might be dropped, open, before this object.
        weakref.finalize(self, _close_all, self._open)

    def read(self, path: str, begin: int, end: int, size: int) -> bytes:
        """The bytes of a file from `begin` to `end`, the file being as large as it was."""
        with self._lock:
            file = self._open.pop(path, None)
            if file is None:
                while len(self._open) >= _MOST_OPEN:
                    self._open.pop(next(iter(self._open))).close()
                file = open(path, "rb")  # noqa: SIM115
            self._open[path] = file  # the last one used is the last to be closed
            found = os.fstat(file.fileno()).st_size
            file.seek(begin)
            data: bytes = file.read(end - begin)
        if found != size:
            raise JsonLinesFileError(
                f"{path} is {found} bytes long, but was {size} when this source was made: the file "
                "has changed. Make the source anew; a checkpoint of the old file does not fit it."
            )
        return data

    def close(self) -> None:
        """Closes all files, between reads of other threads."""
        with self._lock:
            while self._open:  # one by one, so that Ctrl-C leaves no closed file behind
                self._open.popitem()[1].close()


def _close_all(files: dict[str, Any]) -> None:
    # Nobody else is left; a forked child could not even take the lock.
    for file in files.values():
        file.close()
