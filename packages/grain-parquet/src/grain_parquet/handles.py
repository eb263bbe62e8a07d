"""Open files of one process, each used by one thread at a time."""

from __future__ import annotations

import collections
import contextlib
import threading
from collections.abc import Iterator

import pyarrow.parquet as pq

from grain_parquet import files
from grain_parquet.errors import ParquetFileError
from grain_parquet.files import Footer, StorageOptions

# A remote file that stays open keeps what was read of it last.
_MAX_IDLE_LOCAL = 64
_MAX_IDLE_REMOTE = 4


class Handles:
    """Lends open files, keeps some of those that come back, and checks each when it is opened."""

    def __init__(self, storage_options: StorageOptions) -> None:
        self._storage_options = storage_options
        self._lock = threading.Lock()
        self._idle: collections.deque[tuple[str, pq.ParquetFile]] = collections.deque()
        self._generation = 0

    @contextlib.contextmanager
    def lend(self, footer: Footer) -> Iterator[pq.ParquetFile]:
        """An open file, for the time of a `with` block."""
        with self._lock:
            generation = self._generation
            file = self._take(footer.path)
        if file is None:
            file = self._open(footer)
        try:
            yield file
        except BaseException:
            file.close(force=True)
            raise
        self._give_back(footer.path, file, generation)

    def _take(self, path: str) -> pq.ParquetFile | None:
        for place, (idle, file) in enumerate(self._idle):
            if idle == path:
                del self._idle[place]
                return file
        return None

    def _give_back(self, path: str, file: pq.ParquetFile, generation: int) -> None:
        with self._lock:
            surplus = []
            if generation == self._generation:
                self._idle.append((path, file))
                limit = _MAX_IDLE_REMOTE if files.is_remote(path) else _MAX_IDLE_LOCAL
                while len(self._idle) > limit:
                    surplus.append(self._idle.popleft()[1])
            else:
                surplus.append(file)
        for file in surplus:
            file.close(force=True)

    def _open(self, footer: Footer) -> pq.ParquetFile:
        path = footer.path
        file, digest = files.open_digested(path, self._storage_options)
        metadata = file.metadata
        groups = tuple(metadata.row_group(i).num_rows for i in range(metadata.num_row_groups))
        size = files.size_of(path, self._storage_options)
        if (groups, size, digest) != (footer.rows_of_groups, footer.size, footer.digest):
            file.close(force=True)
            same = (groups, size) == (footer.rows_of_groups, footer.size)
            raise ParquetFileError(
                f"{path} has changed: it holds {sum(groups)} rows in {len(groups)} row groups and "
                f"{size} bytes, but held {sum(footer.rows_of_groups)} rows in "
                f"{len(footer.rows_of_groups)} row groups and {footer.size} bytes"
                f"{', others than now,' if same else ''} when this source "
                "was made. Make the source anew; a checkpoint taken on the old file does not fit "
                "the new one."
            )
        return file

    def close(self) -> None:
        """Closes idle files; those that are lent are closed when they come back."""
        with self._lock:
            self._generation += 1
            idle = list(self._idle)
            self._idle.clear()
        for _, file in idle:
            file.close(force=True)
