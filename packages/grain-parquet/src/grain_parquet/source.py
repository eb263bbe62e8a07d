"""Random access to the rows of Parquet files."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import itertools
import operator
import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, SupportsIndex

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from grain_parquet import files
from grain_parquet.bounded_cache import BoundedCache
from grain_parquet.columns import Column, decode
from grain_parquet.errors import ParquetFileError
from grain_parquet.files import Footer, Paths
from grain_parquet.handles import Handles
from grain_parquet.rows import Row, make_rows

DEFAULT_CACHE_BYTES = 512 * 2**20
_OPENING_THREADS = 16
_SPAN_BYTES = 16 * 2**20
# Decoded columns may take several times the memory that the footer gives.
_EXPECTED_GROWTH = 4


@dataclasses.dataclass(frozen=True)
class _Span:
    """Consecutive row groups of a file, which are read, decoded and cached as one unit."""

    file: int
    groups: range
    rows: int
    nbytes: int


@dataclasses.dataclass(frozen=True)
class _Partition:
    """All files as spans; span s holds the rows from starts[s] to starts[s + 1]."""

    spans: list[_Span]
    starts: np.ndarray


class _DecodedSpan:
    """The decoded columns of a span."""

    def __init__(self, table: pa.Table, path: str) -> None:
        self.columns: list[Column] = [
            decode(column, f"column {name!r} of {path}")
            for name, column in zip(table.column_names, table.columns, strict=True)
        ]
        self.nbytes = sum(column.nbytes for column in self.columns)


class _ProcessState:
    """Open files and decoded row groups of one process; never pickled."""

    def __init__(self, storage_options: Mapping[str, Any], cache_bytes: int) -> None:
        self.pid = os.getpid()
        self.handles = Handles(storage_options)
        self.cache: BoundedCache[tuple[int, range], _DecodedSpan] = BoundedCache(cache_bytes)
        # The largest ratio of decoded size to size in the footer so far.
        self.growth = 1.0
        self.partition: _Partition | None = None


class ParquetDataSource:
    """The rows of one or many Parquet files, as dicts, by index.

    Args:
        paths: A path, a pattern such as `"/data/train-*.parquet"`, a URI that fsspec opens such as
            `"s3://bucket/train-*.parquet"`, or a sequence of these.
        columns: The columns to read, in the order wanted; all by default.
        cache_bytes: Limit of the memory for decoded row groups, in each process. Reading in random
            order is fast if the row groups that it alternates between fit.
        storage_options: Options for fsspec, such as keys or endpoints.

    A number, boolean or date is a numpy scalar, a list of numbers is an array, text and bytes are
    Python's, and other values are Python objects. A null is None. All files must have the same
    columns.

    Files are read by row groups, each decoded as a whole. For random access write row groups of a
    few thousand rows.

    Example:
        source = ParquetDataSource("/data/train-*.parquet", columns=["text", "label"])
        dataset = grain.MapDataset.source(source).shuffle(seed=0).batch(128)
    """

    def __init__(
        self,
        paths: Paths,
        columns: Sequence[str] | None = None,
        *,
        cache_bytes: int = DEFAULT_CACHE_BYTES,
        storage_options: Mapping[str, Any] | None = None,
    ) -> None:
        if isinstance(columns, str) or (columns is not None and not columns):
            raise ValueError(f"columns must be a sequence of at least one name, got {columns!r}.")
        if not isinstance(cache_bytes, (int, float)) or not cache_bytes >= 0:
            raise ValueError(
                f"cache_bytes must be a number of bytes, 0 or more, got {cache_bytes!r}."
            )
        self._storage_options = dict(storage_options or {})
        self._cache_bytes = cache_bytes
        read = self._read_footers(files.expand(paths, self._storage_options))
        self._footers = [footer for footer, _ in read]
        self._columns = _common_columns(read, columns)
        self._length = sum(sum(footer.rows_of_groups) for footer in self._footers)
        self._bytes_in_files = sum(sum(footer.bytes_of_groups) for footer in self._footers)
        self._new_process_state()

    def _read_footers(self, paths: list[str]) -> list[tuple[Footer, pa.Schema]]:
        if not paths:
            raise ValueError("Expected at least one Parquet file, got none.")
        with ThreadPoolExecutor(min(_OPENING_THREADS, len(paths))) as pool:
            return list(pool.map(lambda p: files.read_footer(p, self._storage_options), paths))

    @property
    def paths(self) -> list[str]:
        """Paths of the files, in the order of their rows."""
        return [footer.path for footer in self._footers]

    @property
    def columns(self) -> list[str]:
        """Names of the columns that are read."""
        return list(self._columns)

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, index: SupportsIndex) -> Row:
        index = operator.index(index)
        if not 0 <= index < self._length:
            raise self._index_error(index)
        state, partition = self._live_partition()
        number = int(np.searchsorted(partition.starts, index, side="right")) - 1
        row = index - int(partition.starts[number])
        with self._use(state, partition.spans[number]) as decoded:
            values = [column.read_one(row) for column in decoded.columns]
        return dict(zip(self._columns, values, strict=True))

    def __getitems__(self, indices: Sequence[int] | np.ndarray) -> list[Row]:
        """Return rows in the order of `indices`; each span that holds some is visited once."""
        if len(indices) == 1:
            return [self[indices[0]]]
        order, wanted = self._sorted(indices)
        columns: list[list[Any]] = [[] for _ in self._columns]
        state, partition = self._live_partition()
        for span, rows in _by_span(partition, wanted):
            with self._use(state, span) as decoded:
                for out, column in zip(columns, decoded.columns, strict=True):
                    out += column.read_many(rows)
        read = make_rows(self._columns, columns)
        rows_in_order: list[Any] = [None] * len(read)
        for position, row in zip(order.tolist(), read, strict=True):
            rows_in_order[position] = row
        return rows_in_order

    def __getcolumns__(self, indices: Sequence[int] | np.ndarray) -> dict[str, np.ndarray] | None:
        """Return rows stacked by column, or None if they do not stack."""
        order, wanted = self._sorted(indices)
        if not len(wanted):
            return None
        stacks_of: list[list[Any]] = [[] for _ in self._columns]
        state, partition = self._live_partition()
        for span, rows in _by_span(partition, wanted):
            with self._use(state, span) as decoded:
                for out, column in zip(stacks_of, decoded.columns, strict=True):
                    stacked = column.stack(rows)
                    if stacked is None:
                        return None
                    out.append(stacked)
        stacks = {}
        for name, sorted_stacks in zip(self._columns, stacks_of, strict=True):
            stack = _join(sorted_stacks, order)
            if stack is None:
                return None
            stacks[name] = stack
        return stacks

    def _sorted(self, indices: Sequence[int] | np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the permutation that sorts the indices, and the sorted indices."""
        wanted = np.asarray(indices)
        if wanted.size == 0:
            return np.empty(0, np.int64), np.empty(0, np.int64)
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
        return order, wanted.astype(np.int64, copy=False)

    def _live_partition(self) -> tuple[_ProcessState, _Partition]:
        """Return the state of this process and the partition that it reads by."""
        state = self._process_state
        if state.pid != os.getpid():
            # The locks of a forked child may be held by threads that do not exist there.
            state = self._new_process_state()
        partition = state.partition
        if partition is None:
            partition = state.partition = self._initial_partition(state)
        return state, partition

    def _new_process_state(self) -> _ProcessState:
        self._process_state = _ProcessState(self._storage_options, self._cache_bytes)
        return self._process_state

    def _initial_partition(self, state: _ProcessState) -> _Partition:
        """Return row groups, joined into larger spans if all of them fit into the cache easily.

        Small row groups are expensive, since a batch visits each group that holds one of its rows.
        If not all fit into the cache, larger spans would only mean to decode more for each row.
        """
        single = _partition(self._footers, 0)
        if self._bytes_in_files * _EXPECTED_GROWTH > self._cache_bytes or len(single.spans) < 2:
            return single
        # Repetitive text takes little space in a file and much when decoded: one row group is
        # decoded to estimate the growth before many are read at once.
        sample = next((span for span in single.spans if span.rows and span.nbytes), None)
        if sample is not None:
            try:
                self._record_growth(state, sample, self._read_span(state, sample))
            except (ParquetFileError, OSError):
                return single  # Reading rows of the damaged group raises the error.
        if self._bytes_in_files * state.growth > self._cache_bytes:
            return single
        return _partition(self._footers, _SPAN_BYTES / state.growth)

    def _use(
        self, state: _ProcessState, span: _Span
    ) -> contextlib.AbstractContextManager[_DecodedSpan]:
        def read() -> tuple[_DecodedSpan, int]:
            decoded = self._read_span(state, span)
            self._record_growth(state, span, decoded)
            if len(span.groups) > 1 and self._bytes_in_files * state.growth > self._cache_bytes:
                # It grows more than the sample did.
                state.partition = _partition(self._footers, 0)
            return decoded, decoded.nbytes

        key = (span.file, span.groups)
        return state.cache.use(key, int(span.nbytes * state.growth), read)

    @staticmethod
    def _record_growth(state: _ProcessState, span: _Span, decoded: _DecodedSpan) -> None:
        if span.nbytes:
            state.growth = max(state.growth, decoded.nbytes / span.nbytes)

    def _read_span(self, state: _ProcessState, span: _Span) -> _DecodedSpan:
        footer = self._footers[span.file]
        with state.handles.borrow(footer) as file:
            table = files.read_groups(
                file,
                footer.path,
                span.groups,
                columns=self._columns,
                use_threads=len(self._columns) >= files.MIN_COLUMNS_FOR_THREADS,
            )
        return _DecodedSpan(table.select(self._columns), footer.path)

    def _index_error(self, index: int) -> IndexError:
        return IndexError(f"Index {index} is outside of a source of {self._length} rows.")

    def __iter__(self) -> Iterator[Row]:
        for index in range(self._length):
            yield self[index]

    def close(self) -> None:
        """Release open files and decoded row groups; reading opens and decodes them again."""
        if self._process_state.pid == os.getpid():
            self._process_state.cache.clear()
            self._process_state.handles.close()

    def __enter__(self) -> ParquetDataSource:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def __getstate__(self) -> dict[str, Any]:
        return {key: value for key, value in self.__dict__.items() if key != "_process_state"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._new_process_state()

    def __repr__(self) -> str:
        # Stored in checkpoints and compared on restore: differs for a file with other contents, not
        # for a file in another directory.
        digest = hashlib.sha1(usedforsecurity=False)
        for footer in self._footers:
            name = os.path.basename(footer.path)
            identity = (name, footer.size, footer.rows_of_groups, footer.digest)
            digest.update(repr(identity).encode())
        return (
            f"ParquetDataSource(files={len(self._footers)}, rows={self._length}, "
            f"columns={self._columns}, digest={digest.hexdigest()[:20]})"
        )


def _by_span(partition: _Partition, wanted: np.ndarray) -> Iterator[tuple[_Span, np.ndarray]]:
    """Yield the spans that hold sorted indices, each with the rows inside of it."""
    numbers = np.searchsorted(partition.starts, wanted, side="right") - 1
    breaks = [0, *(np.flatnonzero(np.diff(numbers)) + 1).tolist(), len(wanted)]
    for begin, end in itertools.pairwise(breaks):
        if begin < end:
            number = int(numbers[begin])
            yield partition.spans[number], wanted[begin:end] - partition.starts[number]


def _partition(footers: Sequence[Footer], limit: float) -> _Partition:
    """Join consecutive row groups into spans of at most `limit` bytes in the file."""
    spans = []
    for number, footer in enumerate(footers):
        groups = list(zip(footer.rows_of_groups, footer.bytes_of_groups, strict=True))
        begin = 0
        while begin < len(groups):
            rows, nbytes = groups[begin]
            end = begin + 1
            while end < len(groups) and nbytes + groups[end][1] <= limit:
                rows, nbytes = rows + groups[end][0], nbytes + groups[end][1]
                end += 1
            spans.append(_Span(number, range(begin, end), rows, nbytes))
            begin = end
    return _Partition(spans, np.cumsum([0, *(span.rows for span in spans)], dtype=np.int64))


def _common_columns(
    read: Sequence[tuple[Footer, pa.Schema]], columns: Sequence[str] | None
) -> list[str]:
    """Return the columns to read, which all files must have, with the same types."""
    # A file that was written without any rows has no columns.
    read = [
        (footer, schema) for footer, schema in read if schema.names or any(footer.rows_of_groups)
    ]
    if not read:
        return list(columns or ())
    first, first_schema = read[0]
    names = list(first_schema.names if columns is None else columns)
    if not names:
        raise ParquetFileError(
            f"{first.path} has {sum(first.rows_of_groups)} rows and no columns. Write it again with"
            " its columns, or leave it out."
        )
    for name in names:
        if names.count(name) > 1:
            raise ValueError(
                f"The column {name!r} is given twice, and a row can hold only one: name each once."
            )
    known: dict[str, tuple[pa.DataType, str]] = {}
    for footer, schema in read:
        for name in names:
            if name not in schema.names:
                raise ValueError(
                    f"{footer.path} has no column {name!r}; it has {schema.names}. Name the "
                    "columns that all files have."
                )
            kind = _plain_type(schema.field(name).type)
            if pt.is_null(kind):
                # A column with only nulls matches any type.
                continue
            expected, path = known.setdefault(name, (kind, footer.path))
            if kind != expected:
                raise ValueError(
                    f"The column {name!r} is of type {kind} in {footer.path}, but of type "
                    f"{expected} in {path}. Read them as two sources, or write one of them again."
                )
    return names


def _plain_type(kind: pa.DataType) -> pa.DataType:
    """Return the type without properties that do not affect the values read."""
    if pt.is_dictionary(kind):
        kind = kind.value_type
    if pt.is_large_string(kind) or str(kind) == "string_view":
        return pa.string()
    if pt.is_large_binary(kind) or str(kind) == "binary_view":
        return pa.binary()
    if pt.is_large_list(kind):
        return pa.list_(kind.value_type)
    return kind


def _join(stacks: list[Any], order: np.ndarray) -> np.ndarray | None:
    """Join the stacks of several spans into one, in the order of the indices."""
    if isinstance(stacks[0], list):
        texts: list[Any] = [None] * len(order)
        joined = itertools.chain.from_iterable(stacks)
        for position, text in zip(order.tolist(), joined, strict=True):
            texts[position] = text
        return np.array(texts)
    if any(stack.shape[1:] != stacks[0].shape[1:] for stack in stacks):
        return None
    sorted_stack = np.concatenate(stacks)
    out = np.empty_like(sorted_stack)
    out[order] = sorted_stack
    return out
