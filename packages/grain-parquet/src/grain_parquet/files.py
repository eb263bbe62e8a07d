"""Paths, patterns and URIs of Parquet files, and functions that open and read them.

Page checksums are verified where a file has them.
"""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import glob
import hashlib
import os
import urllib.parse
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq

from grain_parquet.errors import ParquetFileError

Path: TypeAlias = str | os.PathLike[str]
Paths: TypeAlias = Path | Sequence[Path]
StorageOptions: TypeAlias = Mapping[str, Any]

# The last bytes of a file: the length of the footer, and four magic bytes.
_TAIL_BYTES = 8

# Fewer columns are decoded faster without threads.
MIN_COLUMNS_FOR_THREADS = 5


def as_list(paths: Paths) -> list[str]:
    """Return paths, given as one path or a sequence, as a list of strings."""
    if isinstance(paths, (str, os.PathLike)):
        return [_as_text(paths)]
    if not isinstance(paths, Sequence):
        raise TypeError(f"Expected a path or a sequence of paths, got {paths!r}.")
    return [_as_text(path) for path in paths]


def _as_text(path: Path) -> str:
    text = os.fspath(path) if isinstance(path, os.PathLike) else path
    if not isinstance(text, str):
        raise TypeError(f"A path must be a string or a path object, got {path!r}.")
    if text.startswith("file://") and "%" in text and not os.path.lexists(text[len("file://") :]):
        # Percent-encoded, as programs write file URIs; fsspec does not decode them.
        return urllib.parse.unquote(text)
    return text


def is_remote(path: str) -> bool:
    """Return whether a path is a URI that fsspec opens."""
    return "://" in path or "::" in path


def expand(paths: Paths, storage_options: StorageOptions) -> list[str]:
    """Return the files that paths and patterns name; patterns expand in sorted order."""
    return [file for path in as_list(paths) for file in _expand_one(path, storage_options)]


def _expand_one(path: str, storage_options: StorageOptions) -> Sequence[str]:
    if not glob.has_magic(path):
        return [path]
    if is_remote(path):
        system, inner = fsspec.core.url_to_fs(path, **storage_options)
        # The question mark of a URI's query is not a wildcard.
        if not glob.has_magic(inner) or system.exists(inner):
            return [path]
        found = [system.unstrip_protocol(file) for file in sorted(system.glob(inner))]
    elif os.path.exists(path):
        return [path]
    else:
        found = sorted(file for file in glob.glob(path, recursive=True) if os.path.isfile(file))
    if not found:
        raise FileNotFoundError(
            errno.ENOENT, "No file matches the pattern: check the directory and the pattern", path
        )
    return found


@dataclasses.dataclass(frozen=True)
class Footer:
    """Size, digest and row groups of a file, by which a changed file is detected."""

    path: str
    size: int
    digest: str
    rows_of_groups: tuple[int, ...]
    bytes_of_groups: tuple[int, ...]


def read_footer(path: str, storage_options: StorageOptions) -> tuple[Footer, pa.Schema]:
    """Read the footer and the schema of a file."""
    file, digest = open_digested(path, storage_options)
    try:
        with _named_errors(path):
            metadata = file.metadata
            groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
            footer = Footer(
                path,
                size_of(path, storage_options),
                digest,
                tuple(group.num_rows for group in groups),
                tuple(group.total_byte_size for group in groups),
            )
            return footer, file.schema_arrow
    finally:
        file.close(force=True)


def size_of(path: str, storage_options: StorageOptions) -> int:
    """Return the size of a file in bytes, 0 if its file system does not report it."""
    if is_remote(path):
        system, inner = fsspec.core.url_to_fs(path, **storage_options)
        return int(system.size(inner) or 0)
    return os.path.getsize(path)


def open_kept(path: str, storage_options: StorageOptions, **options: Any) -> pq.ParquetFile:
    """Open a Parquet file, which the caller closes.

    Args:
        path: The file.
        storage_options: Options for fsspec.
        options: Options of `pyarrow.parquet.ParquetFile`.
    """
    with _named_errors(path), _opened(path, storage_options) as raw:
        return _parquet(raw, **options)


def open_digested(path: str, storage_options: StorageOptions) -> tuple[pq.ParquetFile, str]:
    """Open a Parquet file, which the caller closes, and return it with a digest of its footer.

    A footer has sizes, offsets and, from most writers, the minimum and maximum of each column, so it
    usually differs when the data does, even if the size of the file is the same.
    """
    with _named_errors(path), _opened(path, storage_options) as raw:
        if isinstance(raw, str):
            with open(raw, "rb") as file:
                digest = _footer_digest(file)
        else:
            digest = _footer_digest(raw)
        return _parquet(raw), digest


def _parquet(raw: Any, **options: Any) -> pq.ParquetFile:
    # Remotely, one request for a row group instead of one for each column is worth the memory that
    # the buffered data takes; on a local disk it is not.
    options.setdefault("pre_buffer", not isinstance(raw, str))
    options.setdefault("page_checksum_verification", True)
    file = pq.ParquetFile(raw, **options)
    try:
        _check_column_names(file.metadata)
    except BaseException:
        file.close()  # A remote file is closed by its owner.
        raise
    return file


def _check_column_names(metadata: pq.FileMetaData) -> None:
    """Compare the two places of a footer, which has no checksum, that name the columns."""
    if not metadata.num_row_groups:
        return
    schema, group = metadata.schema, metadata.row_group(0)
    for number in range(metadata.num_columns):
        in_schema, in_group = schema.column(number).path, group.column(number).path_in_schema
        if in_schema != in_group:
            raise pa.ArrowInvalid(
                f"The schema names column {number} {in_schema!r}, its first row group {in_group!r}."
            )


def _footer_digest(file: Any) -> str:
    end = file.seek(0, os.SEEK_END)
    file.seek(max(0, end - _TAIL_BYTES))
    tail = file.read(_TAIL_BYTES)
    length = int.from_bytes(tail[:4], "little")
    file.seek(max(0, end - _TAIL_BYTES - length))
    footer = file.read(min(length, end))
    file.seek(0)
    return hashlib.sha1(footer, usedforsecurity=False).hexdigest()


@contextlib.contextmanager
def _opened(path: str, storage_options: StorageOptions) -> Iterator[Any]:
    """Yield what pyarrow opens: a local path, or an open remote file, which is closed on errors."""
    if not is_remote(path):
        yield path
        return
    system, inner = fsspec.core.url_to_fs(path, **storage_options)
    raw = system.open(inner, "rb")
    try:
        yield raw
    except BaseException:
        raw.close()
        raise


@contextlib.contextmanager
def _named_errors(path: str) -> Iterator[None]:
    """Name the file in errors of opening it, and what to do."""
    if os.path.isdir(path):
        raise IsADirectoryError(
            errno.EISDIR, "This is a directory: give its files, for instance as '*.parquet'", path
        )
    try:
        yield
    except FileNotFoundError as error:
        raise FileNotFoundError(
            errno.ENOENT, "There is no such Parquet file: check the path", path
        ) from error
    except PermissionError as error:
        raise PermissionError(
            errno.EACCES,
            "No permission to read this Parquet file: change the permissions of it or its directories",
            path,
        ) from error
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise ParquetFileError(
            f"Cannot open {path} as Parquet: {_sentence(error)} The file is truncated (was its"
            " writer closed?), damaged, or of another format; write it again or leave it out."
        ) from error


def read_groups(
    file: pq.ParquetFile, path: str, numbers: Sequence[int], **options: Any
) -> pa.Table:
    """Read row groups of an open file.

    Args:
        file: The open file.
        path: Its path, for errors.
        numbers: The numbers of the row groups.
        options: Options of `read_row_groups`.
    """
    try:
        return file.read_row_groups(list(numbers), **options)
    except (pa.ArrowException, OSError) as error:
        if len(numbers) > 1:
            # Reading each alone finds the damaged one.
            return pa.concat_tables([read_groups(file, path, [n], **options) for n in numbers])
        raise ParquetFileError(
            f"Cannot read row group {numbers[0]} of {path}: {_sentence(error)} The file is truncated or "
            "damaged, or has changed since it was opened; write it again or leave it out."
        ) from error


def _sentence(error: Exception) -> str:
    text = " ".join(str(error).split())
    return text if text.endswith(".") else f"{text}."
