"""Conformance cases of this package, run by `grain conformance arrayrecord`."""

from __future__ import annotations

import os

from grain.plugins import Capability
from grain.testing import Case
from grain_arrayrecord.source import ArrayRecordDataSource
from grain_arrayrecord.writer import write_array_record

_RECORDS = [b"record %d " % number * (number % 4) for number in range(23)]
_CUTS = (0, 9, 10, 23)


def cases() -> list[Case]:
    """Return the cases: several files by paths and by a pattern."""
    return [
        Case(
            name="three files",
            spec="arrayrecord",
            prepare=write,
            make=by_paths,
            make_larger=larger,
            ways={Capability.GLOBS: by_pattern},
            elements=_RECORDS,
        )
    ]


def write(directory: str) -> None:
    """Write three files."""
    for number in range(3):
        records = _RECORDS[_CUTS[number] : _CUTS[number + 1]]
        write_array_record(os.path.join(directory, f"{number}.array_record"), records)
    os.makedirs(os.path.join(directory, "larger"))
    write_array_record(_larger(directory), _RECORDS * 20)


def by_paths(directory: str) -> ArrayRecordDataSource:
    """Open the files by paths."""
    return ArrayRecordDataSource(
        [os.path.join(directory, f"{number}.array_record") for number in range(3)]
    )


def larger(directory: str) -> ArrayRecordDataSource:
    """Open a longer file, to check that pickles do not grow with the data."""
    return ArrayRecordDataSource(_larger(directory))


def _larger(directory: str) -> str:
    return os.path.join(directory, "larger", "0.array_record")


def by_pattern(directory: str) -> ArrayRecordDataSource:
    """Open the files by a pattern."""
    return ArrayRecordDataSource(os.path.join(directory, "*.array_record"))
