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
from grain_parquet.cache import BoundedCache
from grain_parquet.columns import Column, decode
from grain_parquet.errors import ParquetFileError
from grain_parquet.files import Footer, Paths
from grain_parquet.handles import Handles
from grain_parquet.rows import Row, make_rows

DEFAULT_CACHE_BYTES = 512 * 2**20
_OPENING_THREADS = 16
_PIECE_BYTES = 16 * 2**20
# Decoded, a file may take a few times the memory it says its columns take.
_ROOM_FOR_GROWTH = 4
# Decoding few columns in threads costs more than it brings.
_COLUMNS_FOR_THREADS = 5


@dataclasses.dataclass(frozen=True)
class _Piece:
    """What is read, decoded and kept at once: a row group of a file, or some neighbouring ones."""

    file: int
    groups: range
    rows: int
    nbytes: int


@dataclasses.dataclass(frozen=True)
class _Cut:
    """All files in pieces; piece p holds the rows from starts[p] to starts[p + 1]."""

    pieces: list[_Piece]
    starts: np.ndarray


class _Decoded:
    """A decoded piece."""

    def __init__(self, table: pa.Table) -> None:
        self.columns: list[Column] = [decode(column) for column in table.columns]
        self.nbytes = sum(column.nbytes for column in self.columns)


class _Live:
    """What belongs to one process, and is never pickled."""

    def __init__(self, storage_options: Mapping[str, Any], cache_bytes: int) -> None:
        self.pid = os.getpid()
        self.handles = Handles(storage_options)
        self.cache: BoundedCache[tuple[int, range], _Decoded] = BoundedCache(cache_bytes)
        # How much larger row groups are decoded than in the file, as far as seen.
        self.growth = 1.0
        # What is read at once, when that is known.
        self.cut: _Cut | None = None


class ParquetDataSource:
    """The rows of one or many Parquet files, as dicts, by index.

    Args:
        paths: A path, a pattern such as `"/data/train-*.parquet"`, a URI that fsspec opens such as
            `"s3://bucket/train-*.parquet"`, or a sequence of these.
        columns: The columns to read, in the order wanted; all by default.
        cache_bytes: How many bytes of decoded row groups to hold in memory, in each process.
            Reading in random order is fast as long as the row groups it goes to and fro between
            fit in.
        storage_options: Options for fsspec, such as keys or endpoints.

    A number, boolean or date is numpy's, a list of numbers is an array, text and bytes are
    Python's, and anything else is Python objects. A null is None. All files must have the same
    columns.

    The unit of reading is the row group: a file of a few large ones must be read and decoded in
    large pieces. For random access write row groups of some thousand rows.

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
        self._footers = self._read_footers(files.expand(paths, self._storage_options))
        self._columns = _common_columns(self._footers, columns)
        self._length = sum(sum(footer.rows_of_groups) for footer in self._footers)
        self._bytes_in_files = sum(sum(footer.bytes_of_groups) for footer in self._footers)
        self._live = _Live(self._storage_options, cache_bytes)

    def _read_footers(self, paths: list[str]) -> list[Footer]:
        if not paths:
            raise ValueError("Give at least one Parquet file.")
        with ThreadPoolExecutor(min(_OPENING_THREADS, len(paths))) as pool:
            return list(pool.map(lambda p: files.read_footer(p, self._storage_options), paths))

    @property
    def paths(self) -> list[str]:
        """The files, in the order in which their rows are counted."""
        return [footer.path for footer in self._footers]

    @property
    def columns(self) -> list[str]:
        """The columns that are read."""
        return list(self._columns)

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, index: SupportsIndex) -> Row:
        index = operator.index(index)
        if not 0 <= index < self._length:
            raise self._outside(index)
        live, cut = self._settled()
        number = int(np.searchsorted(cut.starts, index, side="right")) - 1
        row = index - int(cut.starts[number])
        with self._use(live, cut.pieces[number]) as piece:
            values = [column.one(row) for column in piece.columns]
        return dict(zip(self._columns, values, strict=True))

    def __getitems__(self, indices: Sequence[int] | np.ndarray) -> list[Row]:
        """Many rows, in the order asked for; each piece of a file they are in is visited once."""
        if len(indices) == 1:
            return [self[indices[0]]]
        order, wanted = self._sorted(indices)
        columns: list[list[Any]] = [[] for _ in self._columns]
        live, cut = self._settled()
        for wanted_piece, rows in _by_piece(cut, wanted):
            with self._use(live, wanted_piece) as piece:
                for out, column in zip(columns, piece.columns, strict=True):
                    out += column.many(rows)
        read = make_rows(self._columns, columns)
        rows_in_order: list[Any] = [None] * len(read)
        for position, row in zip(order.tolist(), read, strict=True):
            rows_in_order[position] = row
        return rows_in_order

    def __getcolumns__(self, indices: Sequence[int] | np.ndarray) -> dict[str, np.ndarray] | None:
        """What stacking many rows gives, without making them; None where they do not stack."""
        order, wanted = self._sorted(indices)
        if not len(wanted):
            return None
        stacks_of: list[list[Any]] = [[] for _ in self._columns]
        live, cut = self._settled()
        for wanted_piece, rows in _by_piece(cut, wanted):
            with self._use(live, wanted_piece) as piece:
                for out, column in zip(stacks_of, piece.columns, strict=True):
                    stacked = column.stacked(rows)
                    if stacked is None:
                        return None
                    out.append(stacked)
        stacks = {}
        for name, parts in zip(self._columns, stacks_of, strict=True):
            stack = _put_together(parts, order)
            if stack is None:
                return None
            stacks[name] = stack
        return stacks

    def _sorted(self, indices: Sequence[int] | np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Where each index stands when sorted, and the sorted indices."""
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
                raise self._outside(int(end))
        return order, wanted.astype(np.int64, copy=False)

    def _settled(self) -> tuple[_Live, _Cut]:
        """What belongs to this process, and what it reads at once."""
        live = self._live
        if live.pid != os.getpid():
            # A forked child has the parent's locks in whatever state they were.
            live = self._live = _Live(self._storage_options, self._cache_bytes)
        cut = live.cut
        if cut is None:
            cut = live.cut = self._first_cut(live)
        return live, cut

    def _first_cut(self, live: _Live) -> _Cut:
        """Row groups, joined into larger pieces where all of them fit into the cache with ease.

        Small row groups have their price, since a batch visits each that it has a row in. Where
        there is no room for all, larger pieces would only mean to decode more for each row.
        """
        single = _cut_in_pieces(self._footers, 0)
        if self._bytes_in_files * _ROOM_FOR_GROWTH > self._cache_bytes or len(single.pieces) < 2:
            return single
        # Few words said often take hardly any room in a file, and much when decoded: one row group
        # is looked at before many are read at once.
        sample = next((piece for piece in single.pieces if piece.rows and piece.nbytes), None)
        if sample is not None:
            try:
                self._note_growth(live, sample, self._read_piece(live, sample))
            except (ParquetFileError, OSError):
                return single  # whoever wants rows of it will hear of it
        if self._bytes_in_files * live.growth > self._cache_bytes:
            return single
        return _cut_in_pieces(self._footers, _PIECE_BYTES / live.growth)

    def _use(self, live: _Live, piece: _Piece) -> contextlib.AbstractContextManager[_Decoded]:
        def read() -> tuple[_Decoded, int]:
            made = self._read_piece(live, piece)
            self._note_growth(live, piece, made)
            if len(piece.groups) > 1 and self._bytes_in_files * live.growth > self._cache_bytes:
                live.cut = _cut_in_pieces(self._footers, 0)  # It grows more than the first did.
            return made, made.nbytes

        key = (piece.file, piece.groups)
        return live.cache.use(key, int(piece.nbytes * live.growth), read)

    @staticmethod
    def _note_growth(live: _Live, piece: _Piece, made: _Decoded) -> None:
        if piece.nbytes:
            live.growth = max(live.growth, made.nbytes / piece.nbytes)

    def _read_piece(self, live: _Live, piece: _Piece) -> _Decoded:
        footer = self._footers[piece.file]
        with live.handles.lend(footer) as file:
            table = files.read_groups(
                file,
                footer.path,
                piece.groups,
                columns=self._columns,
                use_threads=len(self._columns) >= _COLUMNS_FOR_THREADS,
            )
        return _Decoded(table.select(self._columns))

    def _outside(self, index: int) -> IndexError:
        return IndexError(f"Index {index} is outside of a source of {self._length} rows.")

    def __iter__(self) -> Iterator[Row]:
        for index in range(self._length):
            yield self[index]

    def close(self) -> None:
        """Gives up open files and decoded row groups; reading opens and decodes them again."""
        if self._live.pid == os.getpid():
            self._live.cache.clear()
            self._live.handles.close()

    def __enter__(self) -> ParquetDataSource:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def __getstate__(self) -> dict[str, Any]:
        return {key: value for key, value in self.__dict__.items() if key != "_live"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._live = _Live(self._storage_options, self._cache_bytes)

    def __repr__(self) -> str:
        # Written into checkpoints and compared there: a file that was written anew shows, one that
        # was moved with its directory does not.
        digest = hashlib.sha1(usedforsecurity=False)
        for footer in self._footers:
            name = os.path.basename(footer.path)
            told = (name, footer.size, footer.rows_of_groups, footer.digest)
            digest.update(repr(told).encode())
        return (
            f"ParquetDataSource(files={len(self._footers)}, rows={self._length}, "
            f"columns={self._columns}, digest={digest.hexdigest()[:20]})"
        )


def _by_piece(cut: _Cut, wanted: np.ndarray) -> Iterator[tuple[_Piece, np.ndarray]]:
    """The pieces that sorted indices fall into, each with its rows."""
    numbers = np.searchsorted(cut.starts, wanted, side="right") - 1
    breaks = [0, *(np.flatnonzero(np.diff(numbers)) + 1).tolist(), len(wanted)]
    for begin, end in itertools.pairwise(breaks):
        if begin < end:
            number = int(numbers[begin])
            yield cut.pieces[number], wanted[begin:end] - cut.starts[number]


def _cut_in_pieces(footers: Sequence[Footer], limit: float) -> _Cut:
    """Row groups, neighbours joined as long as they take no more than `limit` bytes in the file."""
    pieces = []
    for number, footer in enumerate(footers):
        groups = list(zip(footer.rows_of_groups, footer.bytes_of_groups, strict=True))
        begin = 0
        while begin < len(groups):
            rows, nbytes = groups[begin]
            end = begin + 1
            while end < len(groups) and nbytes + groups[end][1] <= limit:
                rows, nbytes = rows + groups[end][0], nbytes + groups[end][1]
                end += 1
            pieces.append(_Piece(number, range(begin, end), rows, nbytes))
            begin = end
    return _Cut(pieces, np.cumsum([0, *(piece.rows for piece in pieces)], dtype=np.int64))


def _common_columns(footers: Sequence[Footer], columns: Sequence[str] | None) -> list[str]:
    """The columns to read, which all files must have, with the same types."""
    # Nobody could tell the columns of a file when there was no row to write.
    footers = [f for f in footers if f.schema.names or any(f.rows_of_groups)]
    if not footers:
        return list(columns or ())
    first = footers[0]
    names = list(first.schema.names if columns is None else columns)
    if not names:
        raise ParquetFileError(
            f"{first.path} has {sum(first.rows_of_groups)} rows and no columns: there is nothing to"
            " read. Write it again with its columns, or leave it out."
        )
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"The column {name!r} is there twice: a row can hold it once.")
    known: dict[str, tuple[pa.DataType, str]] = {}
    for footer in footers:
        for name in names:
            if name not in footer.schema.names:
                raise ValueError(
                    f"{footer.path} has no column {name!r}; it has {footer.schema.names}. Name the "
                    "columns that all files have."
                )
            kind = _plain_type(footer.schema.field(name).type)
            if pt.is_null(kind):
                # A file that happens to hold nothing but nulls fits to any other.
                continue
            expected, path = known.setdefault(name, (kind, footer.path))
            if kind != expected:
                raise ValueError(
                    f"The column {name!r} is of type {kind} in {footer.path}, but of type "
                    f"{expected} in {path}. Read them as two sources, or write one of them anew."
                )
    return names


def _plain_type(kind: pa.DataType) -> pa.DataType:
    """The type without what makes no difference to the values read."""
    if pt.is_dictionary(kind):
        kind = kind.value_type
    if pt.is_large_string(kind) or str(kind) == "string_view":
        return pa.string()
    if pt.is_large_binary(kind) or str(kind) == "binary_view":
        return pa.binary()
    if pt.is_large_list(kind):
        return pa.list_(kind.value_type)
    return kind


def _put_together(parts: list[Any], order: np.ndarray) -> np.ndarray | None:
    """Stacks of several row groups in one, in the order asked for."""
    if isinstance(parts[0], list):
        texts: list[Any] = [None] * len(order)
        joined = (text for part in parts for text in part)
        for position, text in zip(order.tolist(), joined, strict=True):
            texts[position] = text
        return np.array(texts)
    if any(part.shape[1:] != parts[0].shape[1:] for part in parts):
        return None
    sorted_stack = np.concatenate(parts)
    stack = np.empty_like(sorted_stack)
    stack[order] = sorted_stack
    return stack
