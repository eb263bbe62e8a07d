"""Open readers of one process: opened on first use, evicted least recently used first.

A file is compared with what the source recorded about it (size, modification time, number of
records) when it is opened, which also covers workers that open it later than the parent. The
format's library returns empty records for a file that was truncated while open, so the file is
compared again whenever a record is empty or a read fails.
"""

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
from grain_arrayrecord.shards import FileIdentity, Shard, identify

# The format's readers default to sequential reading; these options make random access fast.
RANDOM_ACCESS = {"readahead_buffer_size": "0", "max_parallelism": "0"}

# The library's batched read wakes its threads, which takes a third of a millisecond: for fewer
# records than this it is never the faster strategy.
_MIN_BATCHED_READ = 64

_GROUP_SIZE = re.compile(r"(?:^|,)group_size:(\d+)")


class StrategySelector:
    """A choice between two read strategies, 0 and 1, by their recent latency per record.

    Ranges win where data is in memory, threads where storage is slow, decoding is heavy or batches
    are large. Both are timed, and the slower strategy is probed at regular intervals.
    """

    PROBE_INTERVAL = 64

    def __init__(self) -> None:
        self._seconds: list[float | None] = [None, None]
        self._selections = 0

    def select(self) -> int:
        """Return the strategy to use for the next read."""
        first, second = self._seconds
        if first is None or second is None:
            return 0 if first is None else 1
        self._selections += 1
        faster = 0 if first <= second else 1
        return 1 - faster if self._selections % self.PROBE_INTERVAL == 0 else faster

    def record(self, strategy: int, seconds: float) -> None:
        """Update the moving average of a strategy's latency per record."""
        average = self._seconds[strategy]
        self._seconds[strategy] = (
            seconds if average is None else average + 0.3 * (seconds - average)
        )


class ShardReader:
    """An open file, read by single records or by sorted batches of them."""

    def __init__(self, path: str, options: Mapping[str, str]) -> None:
        merged = {**RANDOM_ACCESS, **options}
        self._path = path
        # Taken before opening: a file that changes in between is reported, never accepted.
        self.identity = identify(path)
        try:
            self._reader = array_record_module.ArrayRecordReader(
                path, ",".join(f"{key}:{value}" for key, value in merged.items())
            )
            if not self._reader.ok():
                # The library reports the reason only on close.
                self._reader.close()
        except RuntimeError as error:
            raise _open_error(path, error) from error
        self.records = int(self._reader.num_records())
        group_size = _GROUP_SIZE.search(self._reader.writer_options_string() or "")
        self._group_size = int(group_size[1]) if group_size else 1
        self._strategy = StrategySelector()
        self._range_lock = threading.Lock()

    def read_one(self, record: int) -> bytes:
        """Return one record."""
        # A range of one is about fifty times faster than a list of one: no thread is woken.
        with self._named_errors():
            data: bytes = self._reader.read(record, record + 1)[0]
        if not data:
            self._check_unchanged()
        return data

    def read_sorted(self, records: npt.NDArray[np.int64]) -> list[bytes]:
        """Return records given in ascending order, repeats allowed."""
        read = self._read_batch(records)
        if not all(read):
            self._check_unchanged()
        return read

    def _read_batch(self, records: npt.NDArray[np.int64]) -> list[bytes]:
        if len(records) < _MIN_BATCHED_READ:
            return self._read_ranges(records)
        strategy = self._strategy.select()
        # Ranges are short calls that release the interpreter lock each time, so concurrent threads
        # would mostly contend for it. Waiting for the lock is not part of the measured latency.
        with contextlib.nullcontext() if strategy else self._range_lock:
            started = time.perf_counter()
            out = self._read_in_parallel(records) if strategy else self._read_ranges(records)
            self._strategy.record(strategy, (time.perf_counter() - started) / len(records))
        return out

    def _read_ranges(self, records: npt.NDArray[np.int64]) -> list[bytes]:
        """Read with one call for each contiguous range: no thread is woken.

        Neighbouring records, and records of one compressed group, which is decoded as a whole in
        any case, are read by one call.
        """
        groups = records // self._group_size
        gaps = np.diff(records) != 1
        cuts = np.flatnonzero(gaps & (np.diff(groups) != 0)) + 1
        begins = [0, *cuts.tolist()]
        ends = [*cuts.tolist(), len(records)]
        firsts, lasts = records[begins].tolist(), records[[*(cuts - 1), -1]].tolist()
        read, out = self._reader.read, []
        with self._named_errors():
            if np.count_nonzero(gaps) == len(cuts):
                for first, last in zip(firsts, lasts, strict=True):
                    out += read(first, last + 1)
                return out
            for first, last, begin, end in zip(firsts, lasts, begins, ends, strict=True):
                chunk = read(first, last + 1)
                out += [chunk[offset] for offset in (records[begin:end] - first).tolist()]
        return out

    def _read_in_parallel(self, records: npt.NDArray[np.int64]) -> list[bytes]:
        """Read with one call, spread over the library's threads."""
        unique, inverse = np.unique(records, return_inverse=True)
        with self._named_errors():
            read: list[bytes] = self._reader.read(unique.tolist())
        return read if len(unique) == len(records) else [read[i] for i in inverse.tolist()]

    @contextlib.contextmanager
    def _named_errors(self) -> Iterator[None]:
        """Name the file in errors, and raise the errors that the library only keeps as a status."""
        try:
            yield
        except (RuntimeError, IndexError, ValueError) as error:
            raise self._read_error(error) from error
        if not self._reader.ok():
            raise self._read_error(None)

    def _read_error(self, reason: Exception | None) -> ArrayRecordFileError:
        self._check_unchanged()
        return ArrayRecordFileError(
            f"Cannot read records of {self._path}: {str(reason or '') or 'damaged data'}. The file "
            "is truncated or damaged; write it again or leave it out."
        )

    def _check_unchanged(self) -> None:
        check_identity(self._path, identify(self._path), self.identity, "it was opened")


def _open_error(path: str, error: RuntimeError) -> ArrayRecordFileError:
    try:
        if "://" not in path:
            # Raises a typed error; the format's library has only a text.
            with open(path, "rb"):
                pass
    except FileNotFoundError:
        return ArrayRecordFileNotFoundError(
            f"There is no ArrayRecord file {path}: check the path, or whether the disk is mounted."
        )
    except PermissionError:
        return ArrayRecordPermissionError(
            f"No permission to read {path}: change the permissions of the file or its directories."
        )
    except OSError:
        pass
    if os.path.isdir(path):
        return ArrayRecordFileError(
            f"{path} is a directory: give its files, for instance as "
            f"{os.path.join(path, '*.array_record')!r}."
        )
    if "://" in path:
        return ArrayRecordFileNotFoundError(
            f"Cannot open {path}: ArrayRecord files are read from mounted file systems, and not by URL "
            f"({error}). Mount the bucket, or copy the files to a local disk first."
        )
    return ArrayRecordFileError(
        f"Cannot open {path} as ArrayRecord: {str(error) or 'no valid footer'}. The file is "
        "truncated (was its writer closed?), damaged, or of another format; write it again or "
        "leave it out."
    )


class OpenReaders:
    """The open readers of the process that made this object, at most `limit` of them.

    Readers are released by dropping the reference, never by closing them while a thread may read.
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
        """Return the reader of a shard, opening the file if necessary."""
        with self._lock:
            reader = self._open.get(shard.path)
            if reader is not None:
                self._open.move_to_end(shard.path)
        if reader is not None:
            _check_records(shard, reader.records)
            return reader
        # Opened outside of the lock, so that many files open concurrently; if two threads open the
        # same file, the first reader is kept.
        opened = ShardReader(shard.path, self._options)
        _check_records(shard, opened.records)
        check_identity(shard.path, opened.identity, shard.identity, "this source was created")
        with self._lock:
            reader = self._open.setdefault(shard.path, opened)
            self._open.move_to_end(shard.path)
            while len(self._open) > self.limit:
                self._open.popitem(last=False)
        return reader

    def drop(self) -> None:
        """Release all readers."""
        with self._lock:
            self._open.clear()


def _check_records(shard: Shard, records: int) -> None:
    known = shard.records_in_file
    if known is not None and records != known:
        raise ArrayRecordFileError(
            f"{shard.path} holds {records} records, but held {known} when this source (or its "
            f"file instruction) was created: the file has changed. {_CREATE_AGAIN}"
        )
    if shard.count is not None and shard.start + shard.count > records:
        raise ArrayRecordFileError(
            f"{shard.path} holds {records} records, but the requested range is records "
            f"{shard.start} to {shard.start + shard.count}: correct the range."
        )


def check_identity(
    path: str, found: FileIdentity | None, expected: FileIdentity | None, since: str
) -> None:
    """Raise an error if a file is not the file that was seen before; None compares with nothing."""
    if expected is None or found == expected:
        return
    if found is None:
        raise ArrayRecordFileNotFoundError(
            f"{path} was removed or replaced after {since}. {_CREATE_AGAIN}"
        )
    if found.size != expected.size:
        change = f"is {found.size} bytes long, but was {expected.size} when {since}"
    else:
        change = f"was written again after {since}"
    raise ArrayRecordFileError(f"{path} {change}: the file has changed. {_CREATE_AGAIN}")


_CREATE_AGAIN = (
    "Create the source again; a checkpoint taken on the old file does not match the new one."
)
