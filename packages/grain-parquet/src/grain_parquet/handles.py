"""Pool of the open files of one process, each used by one thread at a time."""

from __future__ import annotations

import collections
import contextlib
import threading
from collections.abc import Iterator

import pyarrow.parquet as pq

from grain_parquet import files
from grain_parquet.errors import ParquetFileError
from grain_parquet.files import Footer, StorageOptions

# An open remote file keeps its last buffered read in memory.
_MAX_IDLE_LOCAL = 64
_MAX_IDLE_REMOTE = 4


class Handles:
    """A pool of open files, each checked against its footer when it is opened."""

    def __init__(self, storage_options: StorageOptions) -> None:
        self._storage_options = storage_options
        self._lock = threading.Lock()
        self._idle: collections.deque[tuple[str, pq.ParquetFile]] = collections.deque()
        self._generation = 0

    @contextlib.contextmanager
    def borrow(self, footer: Footer) -> Iterator[pq.ParquetFile]:
        """Yield an open file for the duration of a `with` block."""
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
        self._return(footer.path, file, generation)

    def _take(self, path: str) -> pq.ParquetFile | None:
        for position, (idle, file) in enumerate(self._idle):
            if idle == path:
                del self._idle[position]
                return file
        return None

    def _return(self, path: str, file: pq.ParquetFile, generation: int) -> None:
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
                f"{', with other contents,' if same else ''} when this source "
                "was created. Create the source again; a checkpoint taken on the old file does not "
                "match the new one."
            )
        return file

    def close(self) -> None:
        """Close idle files; files in use are closed when they are returned."""
        with self._lock:
            self._generation += 1
            idle = list(self._idle)
            self._idle.clear()
        for _, file in idle:
            file.close(force=True)
