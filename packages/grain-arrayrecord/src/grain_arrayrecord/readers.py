"""Open readers of one process: opened on first use, the least recently used given up first."""

from __future__ import annotations

import collections
import contextlib
import os
import re
import threading
import time
from collections.abc import Iterator, Mapping

import numpy as np
import numpy.typing as npt
from array_record.python import array_record_module

from grain_arrayrecord.errors import (
    ArrayRecordFileError,
    ArrayRecordFileNotFoundError,
    ArrayRecordPermissionError,
)
from grain_arrayrecord.shards import Shard

# The format's readers default to sequential reading; these two make random access fast.
RANDOM_ACCESS = {"readahead_buffer_size": "0", "max_parallelism": "0"}

# Below this many records the reader's own batched call, which wakes up its threads for a third of a
# millisecond, is never the faster way.
_FEW = 64

_GROUP_SIZE = re.compile(r"(?:^|,)group_size:(\d+)")


class FasterOfTwo:
    """Which of two ways of reading to take: the one that was faster of late.

    Ranges win where data is in memory, threads where storage is slow, decoding is heavy or batches
    are large; so both are timed, and the slower one is tried again now and then.
    """

    EVERY = 64

    def __init__(self) -> None:
        self._seconds: list[float | None] = [None, None]
        self._turn = 0

    def next(self) -> int:
        """The way to take now, 0 or 1."""
        first, second = self._seconds
        if first is None or second is None:
            return 0 if first is None else 1
        self._turn += 1
        faster = 0 if first <= second else 1
        return 1 - faster if self._turn % self.EVERY == 0 else faster

    def note(self, way: int, seconds: float) -> None:
        """Takes note of how long a record took."""
        before = self._seconds[way]
        self._seconds[way] = seconds if before is None else before + 0.3 * (seconds - before)


class ShardReader:
    """An open file: stretches and scattered records of it."""

    def __init__(self, path: str, options: Mapping[str, str]) -> None:
        merged = {**RANDOM_ACCESS, **options}
        self.path = path
        try:
            self._reader = array_record_module.ArrayRecordReader(
                path, ",".join(f"{key}:{value}" for key, value in merged.items())
            )
            if not self._reader.ok():
                # The reader keeps the reason to itself until it is closed.
                self._reader.close()
        except RuntimeError as error:
            raise _cannot_open(path, error) from error
        self.records = int(self._reader.num_records())
        group_size = _GROUP_SIZE.search(self._reader.writer_options_string() or "")
        self._group_size = int(group_size[1]) if group_size else 1
        self._choice = FasterOfTwo()
        self._turn = threading.Lock()

    def read_one(self, record: int) -> bytes:
        """One record."""
        # A range of one is some fifty times faster than a list of one: no thread is woken.
        with self._errors_named():
            return self._reader.read(record, record + 1)[0]  # type: ignore[no-any-return]

    def read_sorted(self, records: npt.NDArray[np.int64]) -> list[bytes]:
        """Records given in ascending order, repeats allowed."""
        if len(records) < _FEW:
            return self._read_by_ranges(records)
        way = self._choice.next()
        # Ranges are quick calls that let go of the interpreter's lock each time: several threads at
        # it would spend their time getting it back. Waiting for one's turn is not the ranges' fault.
        with contextlib.nullcontext() if way else self._turn:
            started = time.perf_counter()
            out = self._read_in_parallel(records) if way else self._read_by_ranges(records)
            self._choice.note(way, (time.perf_counter() - started) / len(records))
        return out

    def _read_by_ranges(self, records: npt.NDArray[np.int64]) -> list[bytes]:
        """One call for each stretch of records: no thread is woken, nothing is waited for.

        Neighbouring records, and records of one compressed group, which is decoded as a whole in
        any case, are read together.
        """
        groups = records // self._group_size
        apart = np.diff(records) != 1
        cuts = np.flatnonzero(apart & (np.diff(groups) != 0)) + 1
        begins = [0, *cuts.tolist()]
        ends = [*cuts.tolist(), len(records)]
        firsts, lasts = records[begins].tolist(), records[[*(cuts - 1), -1]].tolist()
        read, out = self._reader.read, []
        with self._errors_named():
            if np.count_nonzero(apart) == len(cuts):
                for first, last in zip(firsts, lasts, strict=True):
                    out += read(first, last + 1)
                return out
            for first, last, begin, end in zip(firsts, lasts, begins, ends, strict=True):
                stretch = read(first, last + 1)
                out += [stretch[place] for place in (records[begin:end] - first).tolist()]
        return out

    def _read_in_parallel(self, records: npt.NDArray[np.int64]) -> list[bytes]:
        """One call for all, spread over the reader's threads."""
        unique, places = np.unique(records, return_inverse=True)
        with self._errors_named():
            read: list[bytes] = self._reader.read(unique.tolist())
        return read if len(unique) == len(records) else [read[place] for place in places.tolist()]

    @contextlib.contextmanager
    def _errors_named(self) -> Iterator[None]:
        """Adds the file to errors, and makes errors of what the reader keeps to itself."""
        try:
            yield
        except (RuntimeError, IndexError, ValueError) as error:
            raise self._cannot_read(error) from error
        if not self._reader.ok():
            raise self._cannot_read(None)

    def _cannot_read(self, reason: Exception | None) -> ArrayRecordFileError:
        return ArrayRecordFileError(
            f"Cannot read records of {self.path}: {str(reason or '') or 'damaged data'}. The "
            "file is truncated or damaged, or has changed since it was opened; write it again or "
            "leave it out."
        )


def _cannot_open(path: str, error: RuntimeError) -> ArrayRecordFileError:
    try:
        if "://" not in path:
            # Says why, which the format's library does only in words.
            with open(path, "rb"):
                pass
    except FileNotFoundError:
        return ArrayRecordFileNotFoundError(
            f"There is no ArrayRecord file {path}: check the path, or whether the disk is mounted."
        )
    except PermissionError:
        return ArrayRecordPermissionError(
            f"{path} may not be read: change its permissions, or those of its directories."
        )
    except OSError:
        pass
    if os.path.isdir(path):
        return ArrayRecordFileError(
            f"{path} is a directory: give its files, for instance as "
            f"{os.path.join(path, '*.array_record')!r}."
        )
    return ArrayRecordFileError(
        f"Cannot open {path} as ArrayRecord: {str(error) or 'no valid footer'}. The file is "
        "truncated (its writer was not closed?), damaged, or of another format; write it again or "
        "leave it out."
    )


class OpenReaders:
    """The open readers of the process that made this object, at most `limit` of them.

    Readers are given up by dropping them, never by closing them under a thread that still reads.
    """

    def __init__(self, options: Mapping[str, str], limit: int) -> None:
        self.pid = os.getpid()
        self._options = options
        self.limit = limit
        self._lock = threading.Lock()
        self._open: collections.OrderedDict[str, ShardReader] = collections.OrderedDict()

    def __len__(self) -> int:
        return len(self._open)

    def __contains__(self, path: str) -> bool:
        return path in self._open

    def get(self, shard: Shard) -> ShardReader:
        """The reader of a shard, opened if need be."""
        with self._lock:
            reader = self._open.get(shard.path)
            if reader is not None:
                self._open.move_to_end(shard.path)
        if reader is not None:
            _check_records(shard, reader.records)
            return reader
        # Opened outside of the lock, so that many files open at once; of two threads that open
        # one file the first one's reader is kept.
        opened = ShardReader(shard.path, self._options)
        _check_records(shard, opened.records)
        _check_size(shard)
        with self._lock:
            reader = self._open.setdefault(shard.path, opened)
            self._open.move_to_end(shard.path)
            while len(self._open) > self.limit:
                self._open.popitem(last=False)
        return reader

    def drop(self) -> None:
        """Gives up all readers."""
        with self._lock:
            self._open.clear()


def _check_records(shard: Shard, records: int) -> None:
    known = shard.records_in_file
    if known is not None and records != known:
        raise ArrayRecordFileError(
            f"{shard.path} holds {records} records, but held {known} when this source (or its "
            f"file instruction) was made: the file has changed. {_MAKE_ANEW}"
        )
    if shard.count is not None and shard.start + shard.count > records:
        raise ArrayRecordFileError(
            f"{shard.path} holds {records} records, but records {shard.start} to "
            f"{shard.start + shard.count} were asked for: correct the range."
        )


def _check_size(shard: Shard) -> None:
    if shard.bytes_in_file is None:
        return
    size = os.path.getsize(shard.path)
    if size != shard.bytes_in_file:
        raise ArrayRecordFileError(
            f"{shard.path} is {size} bytes long, but was {shard.bytes_in_file} when this source "
            f"was made: the file has changed. {_MAKE_ANEW}"
        )


_MAKE_ANEW = "Make the source anew; a checkpoint taken on the old file does not fit the new one."
