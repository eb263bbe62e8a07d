"""Resolution of paths, patterns and file instructions to the list of shards to read."""

from __future__ import annotations

import dataclasses
import glob
import os
import re
import urllib.parse
from collections.abc import Iterator, Sequence
from typing import Protocol, TypeAlias, runtime_checkable

from grain_arrayrecord.errors import ArrayRecordFileNotFoundError


@runtime_checkable
class FileInstructionLike(Protocol):
    """Any object naming a range of records in a file, such as TFDS's `FileInstruction`."""

    @property
    def filename(self) -> str:
        """Path of the file."""
        ...

    @property
    def skip(self) -> int:
        """Number of records to skip at the start of the file."""
        ...

    @property
    def take(self) -> int:
        """Number of records to read after the skipped ones."""
        ...

    @property
    def examples_in_shard(self) -> int:
        """Number of records in the file."""
        ...


@dataclasses.dataclass(frozen=True)
class FileInstruction:
    """The records `skip` to `skip + take` of a file that holds `examples_in_shard` of them.

    A `take` of -1 means all that follow.
    """

    filename: str
    skip: int
    take: int
    examples_in_shard: int


PathOrInstruction: TypeAlias = str | os.PathLike[str] | FileInstructionLike
Paths: TypeAlias = PathOrInstruction | Sequence[PathOrInstruction]


@dataclasses.dataclass(frozen=True)
class FileIdentity:
    """Size and modification time of a file, which change when it is written again.

    Not the inode: a copy with the same times, in another directory or on another host, is equal.
    """

    size: int
    modified_ns: int


def identify(path: str) -> FileIdentity | None:
    """Return the identity of a local file, or None if there is no such file."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return FileIdentity(status.st_size, status.st_mtime_ns)


@dataclasses.dataclass(frozen=True)
class Shard:
    """One file and the range of its records that belongs to the source.

    `count` is None until the file's own number of records is known. `records_in_file` and `identity`
    describe the file as it was when the source was created, None where unknown.
    """

    path: str
    start: int = 0
    count: int | None = None
    records_in_file: int | None = None
    identity: FileIdentity | None = None


_RANGE = re.compile(r"^(?P<path>.*)\[(?P<start>\d+):(?P<stop>\d+)\]$", re.DOTALL)


def resolve(paths: Paths) -> list[Shard]:
    """Return the shards that `paths` name, in order; patterns expand in sorted order.

    >>> resolve(FileInstruction("/data/a.array_record", skip=2, take=3, examples_in_shard=10))
    [Shard(path='/data/a.array_record', start=2, count=3, records_in_file=10, identity=None)]
    """
    if isinstance(paths, (str, os.PathLike, FileInstructionLike)):
        entries: Sequence[PathOrInstruction] = [paths]
    elif isinstance(paths, Sequence):
        entries = paths
        if not entries:
            # Message kept from google/grain 0.2.18
            raise ValueError(
                "Paths sequence can not be of 0 length: give at least one ArrayRecord file."
            )
    else:
        # Message kept from google/grain 0.2.18
        raise ValueError(
            f"Unsupported path format was used: {paths!r}. Give a string, a path, a "
            "FileInstruction, or a sequence of them."
        )
    return [shard for entry in entries for shard in _resolve_one(entry)]


def _resolve_one(entry: PathOrInstruction) -> Iterator[Shard]:
    if isinstance(entry, (str, os.PathLike)):
        path = os.fspath(entry)
        if not isinstance(path, str):
            raise ValueError(f"A path must be text, got {path!r}: decode it first.")
        yield from _resolve_path(path)
    elif isinstance(entry, FileInstructionLike):
        yield _resolve_instruction(entry)
    else:
        raise ValueError(
            "All elements in a path sequence must be strings, paths or FileInstructions, "
            f"got {entry!r}."
        )


def _resolve_path(path: str) -> Iterator[Shard]:
    if path.startswith("file://"):
        # The format's library takes the URI for a file name.
        path = re.sub("^file://(localhost(?=/))?", "", path)
        path = path if os.path.lexists(path) else urllib.parse.unquote(path)
    if os.path.exists(path):
        yield Shard(path)
        return
    ranged = _RANGE.match(path)
    if ranged:
        start, stop = int(ranged["start"]), int(ranged["stop"])
        if stop < start:
            raise ValueError(
                f"The range of {path!r} ends before it starts: give [start:stop] with stop >= start."
            )
        yield Shard(ranged["path"], start, stop - start)
    elif glob.has_magic(path):
        found = sorted(p for p in glob.glob(path, recursive=True) if os.path.isfile(p))
        if not found:
            raise ArrayRecordFileNotFoundError(
                f"No file matches the pattern {path!r}: check the directory and the pattern."
            )
        yield from map(Shard, found)
    else:
        yield Shard(path)


def _resolve_instruction(entry: FileInstructionLike) -> Shard:
    path, skip, total = os.fspath(entry.filename), int(entry.skip), int(entry.examples_in_shard)
    take = total - skip if entry.take == -1 else int(entry.take)
    if not 0 <= skip <= skip + take <= total:
        raise ValueError(
            f"The file instruction for {path} has take={take} and skip={skip}, which exceeds its "
            f"examples_in_shard={total}: correct the instruction."
        )
    return Shard(path, skip, take, total)
