"""Random access to the records of ArrayRecord files."""

from __future__ import annotations

import bisect
import dataclasses
import hashlib
import itertools
import operator
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, SupportsIndex

import numpy as np

from grain_arrayrecord.errors import RecordIndexError
from grain_arrayrecord.readers import OpenReaders
from grain_arrayrecord.shards import Paths, Shard, identify, resolve

if sys.platform != "win32":
    import resource

_OPENING_THREADS = 16


class ArrayRecordDataSource:
    """The records, as bytes, of one or many ArrayRecord files.

    Args:
        paths: A path, a pattern such as `"/data/train-*.array_record"`, a file instruction (any
            object with `filename`, `skip`, `take` and `examples_in_shard`), a path with a range
            such as `"/data/a.array_record[100:200]"`, or a sequence of these.
        reader_options: Options of the format's reader, for instance
            `{"index_storage_option": "in_memory"}`.

    Records are counted when the source is created, unless an instruction says how many a file
    holds. Readers belong to a process. They are opened on first use and released by `close()`, by
    pickling and, when the limit of open files is reached, least recently used first. A closed
    source opens its files again when read. A file that changed after the source was created is an
    error. The format's library starts threads, which a forked child does not have: start processes
    by "spawn" or "forkserver" once a source has been read.

    Example:
        source = ArrayRecordDataSource(["/data/train-*.array_record"])
        dataset = grain.MapDataset.source(source).shuffle(seed=0).map(parse).batch(128)
    """

    def __init__(self, paths: Paths, reader_options: Mapping[str, str] | None = None) -> None:
        if reader_options is not None and not isinstance(reader_options, Mapping):
            raise TypeError(
                f"reader_options must be a mapping of names to values, got {reader_options!r}; "
                'for instance {"index_storage_option": "in_memory"}.'
            )
        self._reader_options = dict(reader_options or {})
        self._readers = OpenReaders(self._reader_options, _open_files_limit())
        shards = resolve(paths)
        self._shards = _map_in_threads(self._with_count, shards)
        counts = [shard.count or 0 for shard in self._shards]
        # Shard s holds the indices from _starts[s] to _starts[s + 1].
        self._starts = list(itertools.accumulate(counts, initial=0))
        self._length = self._starts[-1]

    @property
    def paths(self) -> list[str]:
        """Paths of the files, in the order of their records."""
        return [shard.path for shard in self._shards]

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, index: SupportsIndex) -> bytes:
        index = operator.index(index)
        if not 0 <= index < self._length:
            raise self._index_error(index)
        number = bisect.bisect_right(self._starts, index) - 1
        shard = self._shards[number]
        record = shard.start + index - self._starts[number]
        return self._live_readers().get(shard).read_one(record)

    def __getitems__(self, indices: Sequence[int] | np.ndarray) -> list[bytes]:
        """Return records in the order of `indices`, reading file by file in file order."""
        if len(indices) == 1:
            return [self[indices[0]]]
        wanted = np.asarray(indices)
        if wanted.size == 0:
            return []
        if wanted.ndim != 1 or wanted.dtype.kind not in "iu":
            raise TypeError(
                "indices must be a flat sequence of integers, got an array of "
                f"{wanted.dtype} with shape {wanted.shape}."
            )
        order = np.argsort(wanted, kind="stable")
        wanted = wanted[order]
        for end in (wanted[0], wanted[-1]):
            if not 0 <= end < self._length:
                raise self._index_error(int(end))
        wanted = wanted.astype(np.int64, copy=False)
        first = bisect.bisect_right(self._starts, int(wanted[0])) - 1
        last = bisect.bisect_right(self._starts, int(wanted[-1])) - 1
        if first == last:
            read = self._read_shard(first, wanted)
        else:
            ends = np.searchsorted(wanted, self._starts[first + 1 : last + 1]).tolist()
            groups = [
                (first + k, wanted[begin:end])
                for k, (begin, end) in enumerate(zip([0, *ends], [*ends, len(wanted)], strict=True))
                if begin < end
            ]
            self._open_concurrently([self._shards[number] for number, _ in groups])
            read = [record for group in groups for record in self._read_shard(*group)]
        out: list[Any] = [None] * len(read)
        for position, record in zip(order.tolist(), read, strict=True):
            out[position] = record
        return out

    def _read_shard(self, number: int, indices: np.ndarray) -> list[bytes]:
        shard = self._shards[number]
        records = indices + (shard.start - self._starts[number])
        return self._live_readers().get(shard).read_sorted(records)

    def _open_concurrently(self, shards: Sequence[Shard]) -> None:
        readers = self._live_readers()
        missing = [shard for shard in shards if shard.path not in readers]
        if len(missing) > 1:
            _map_in_threads(readers.get, missing[: readers.limit])

    def _with_count(self, shard: Shard) -> Shard:
        """Return the shard with its number of records and the identity of its file."""
        if shard.records_in_file is not None:
            return dataclasses.replace(shard, identity=identify(shard.path))
        reader = self._readers.get(shard)
        count = reader.records - shard.start if shard.count is None else shard.count
        return dataclasses.replace(
            shard, count=count, records_in_file=reader.records, identity=reader.identity
        )

    def _live_readers(self) -> OpenReaders:
        readers = self._readers
        if readers.pid != os.getpid():
            # In a forked child the threads of the parent's readers do not exist. The readers are
            # kept alive, since destroying them would wait for those threads.
            _PARENT_READERS.append(readers)
            readers = self._readers = OpenReaders(self._reader_options, readers.limit)
        return readers

    def _index_error(self, index: int) -> RecordIndexError:
        # Message kept from google/grain 0.2.18
        return RecordIndexError(
            f"Record key should be in [0, num_records), got {index} for a source of "
            f"{self._length} records."
        )

    def __iter__(self) -> Iterator[bytes]:
        for index in range(self._length):
            yield self[index]

    def close(self) -> None:
        """Release open files; reading opens them again."""
        self._live_readers().drop()

    def __enter__(self) -> ArrayRecordDataSource:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def __getstate__(self) -> dict[str, Any]:
        return {key: value for key, value in self.__dict__.items() if key != "_readers"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._readers = OpenReaders(self._reader_options, _open_files_limit())

    def __repr__(self) -> str:
        # Stored in checkpoints and compared on restore: short and stable.
        digest = hashlib.sha1("".join(self.paths).encode(), usedforsecurity=False).hexdigest()
        return f"ArrayRecordDataSource(hash_of_paths={digest})"


_PARENT_READERS: list[OpenReaders] = []


def _map_in_threads(function: Any, items: Sequence[Any]) -> list[Any]:
    if len(items) < 2:
        return [function(item) for item in items]
    with ThreadPoolExecutor(min(_OPENING_THREADS, len(items))) as pool:
        return list(pool.map(function, items))


def _open_files_limit() -> int:
    """Return half of the process's limit of open files, leaving the rest to the program."""
    if sys.platform == "win32":
        return 256
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return 4096 if soft == resource.RLIM_INFINITY else max(8, min(4096, soft // 2))
