"""From what a user writes (paths, patterns, file instructions) to the list of shards to read."""

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
    """Any object naming a stretch of records in a file, such as TFDS's `FileInstruction`."""

    @property
    def filename(self) -> str:
        """The path of the file."""
        ...

    @property
    def skip(self) -> int:
        """How many records to leave out at the beginning of the file."""
        ...

    @property
    def take(self) -> int:
        """How many records to read after those."""
        ...

    @property
    def examples_in_shard(self) -> int:
        """How many records the file holds."""
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
class Shard:
    """One file and the stretch of its records that belongs to the source.

    `count` is None until the file's own number of records is known; `records_in_file` and
    `bytes_in_file` are what the file held when the source was made, None where unknown.
    """

    path: str
    start: int = 0
    count: int | None = None
    records_in_file: int | None = None
    bytes_in_file: int | None = None


_RANGE = re.compile(r"^(?P<path>.*)\[(?P<start>\d+):(?P<stop>\d+)\]$", re.DOTALL)


def resolve(paths: Paths) -> list[Shard]:
    """The shards behind `paths`, in order; patterns are expanded in sorted order.

    >>> resolve(FileInstruction("/data/a.array_record", skip=2, take=3, examples_in_shard=10))
    [Shard(path='/data/a.array_record', start=2, count=3, records_in_file=10, bytes_in_file=None)]
    """
    if isinstance(paths, (str, os.PathLike, FileInstructionLike)):
        entries: Sequence[PathOrInstruction] = [paths]
    elif isinstance(paths, Sequence):
        entries = paths
        if not entries:
            raise ValueError(
                "Paths sequence can not be of 0 length: give at least one ArrayRecord file."
            )
    else:
        raise ValueError(
            f"Unsupported path format was used: {paths!r}. Give a string, a path, a "
            "FileInstruction, or a sequence of them."
        )
    return [shard for entry in entries for shard in _resolve_one(entry)]


def _resolve_one(entry: PathOrInstruction) -> Iterator[Shard]:
    if isinstance(entry, (str, os.PathLike)):
        path = os.fspath(entry)
        if not isinstance(path, str):
            raise ValueError(f"A path must be text, got {path!r}.")
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
        # The format's library would look for a file of that name.
        path = re.sub("^file://(localhost(?=/))?", "", path)
        path = path if os.path.lexists(path) else urllib.parse.unquote(path)
    if os.path.exists(path):
        yield Shard(path)
        return
    ranged = _RANGE.match(path)
    if ranged:
        start, stop = int(ranged["start"]), int(ranged["stop"])
        if stop < start:
            raise ValueError(f"The range of {path!r} ends before it starts.")
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
            f"The file instruction for {path} asks for {take} records after skipping {skip}, but "
            f"says the file holds {total}."
        )
    return Shard(path, skip, take, total)
