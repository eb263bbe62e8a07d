"""Paths, patterns and URIs of Parquet files, and opening them."""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import glob
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq

from grain_parquet.errors import ParquetFileError

Path: TypeAlias = str | os.PathLike[str]
Paths: TypeAlias = Path | Sequence[Path]
StorageOptions: TypeAlias = Mapping[str, Any]


def as_list(paths: Paths) -> list[str]:
    """What a user wrote for paths, as a list of strings."""
    if isinstance(paths, (str, os.PathLike)):
        return [_as_text(paths)]
    if not isinstance(paths, Sequence):
        raise TypeError(f"Give a path or a sequence of paths, got {paths!r}.")
    return [_as_text(path) for path in paths]


def _as_text(path: Path) -> str:
    text = os.fspath(path) if isinstance(path, os.PathLike) else path
    if not isinstance(text, str):
        raise TypeError(f"A path must be a string or a path object, got {path!r}.")
    return text


def is_remote(path: str) -> bool:
    """Whether a path is the URI of a file system that fsspec opens."""
    return "://" in path or "::" in path


def expand(paths: Paths, storage_options: StorageOptions) -> list[str]:
    """The files behind paths and patterns; those of a pattern in sorted order."""
    return [file for path in as_list(paths) for file in _expand_one(path, storage_options)]


def _expand_one(path: str, storage_options: StorageOptions) -> Sequence[str]:
    if not glob.has_magic(path):
        return [path]
    if is_remote(path):
        system, inner = fsspec.core.url_to_fs(path, **storage_options)
        # A URI may hold a query, whose question mark is no wildcard.
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
    """What the end of a file says about it."""

    path: str
    size: int
    rows_of_groups: tuple[int, ...]
    bytes_of_groups: tuple[int, ...]
    schema: pa.Schema = dataclasses.field(repr=False, compare=False)


def read_footer(path: str, storage_options: StorageOptions) -> Footer:
    """Opens a file, as far as needed to tell what is in it."""
    with open_file(path, storage_options) as file:
        metadata = file.metadata
        groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
        return Footer(
            path,
            size_of(path, storage_options),
            tuple(group.num_rows for group in groups),
            tuple(group.total_byte_size for group in groups),
            file.schema_arrow,
        )


def size_of(path: str, storage_options: StorageOptions) -> int:
    """The size of a file in bytes, 0 where its file system does not tell."""
    if is_remote(path):
        system, inner = fsspec.core.url_to_fs(path, **storage_options)
        return int(system.size(inner) or 0)
    return os.path.getsize(path)


@contextlib.contextmanager
def open_file(
    path: str, storage_options: StorageOptions, **options: Any
) -> Iterator[pq.ParquetFile]:
    """A Parquet file that is closed afterwards; options are those of pyarrow's class."""
    file = open_kept(path, storage_options, **options)
    try:
        yield file
    finally:
        file.close(force=True)


def open_kept(path: str, storage_options: StorageOptions, **options: Any) -> pq.ParquetFile:
    """A Parquet file for the caller to close."""
    if os.path.isdir(path):
        raise IsADirectoryError(
            errno.EISDIR, "This is a directory: give its files, for instance as '*.parquet'", path
        )
    raw: Any = path
    try:
        if is_remote(path):
            system, inner = fsspec.core.url_to_fs(path, **storage_options)
            raw = system.open(inner, "rb")
        # One request for the stretches of a row group, instead of one for each column, is worth
        # that the open file keeps them until the next; on a disk it is not.
        options.setdefault("pre_buffer", raw is not path)
        return pq.ParquetFile(raw, **options)
    except FileNotFoundError as error:
        raise FileNotFoundError(
            errno.ENOENT, "There is no such Parquet file: check the path", path
        ) from error
    except (pa.ArrowException, OSError) as error:
        if raw is not path:
            raw.close()
        raise ParquetFileError(
            f"Cannot open {path} as Parquet: {error} The file is truncated (its writer was not "
            "closed?), damaged, or of another format; write it again or leave it out."
        ) from error


def read_groups(
    file: pq.ParquetFile, path: str, numbers: Sequence[int], **options: Any
) -> pa.Table:
    """Some row groups of an open file."""
    try:
        return file.read_row_groups(list(numbers), **options)
    except (pa.ArrowException, OSError) as error:
        if len(numbers) > 1:
            # One of them is to blame, and reading each alone finds it.
            return pa.concat_tables([read_groups(file, path, [n], **options) for n in numbers])
        raise ParquetFileError(
            f"Cannot read row group {numbers[0]} of {path}: {error} The file is truncated or "
            "damaged, or has changed since it was opened; write it again or leave it out."
        ) from error
