"""Conformance cases of this package, run by `grain conformance jsonl`."""

from __future__ import annotations

import json
import os

from grain.plugins import Capability
from grain.testing import Case
from grain_jsonl.index import write_index
from grain_jsonl.source import JsonLinesDataSource

_LINES = [{"number": n, "text": "ä" * (n % 5), "list": list(range(n % 3))} for n in range(17)]


def cases() -> list[Case]:
    """Return the cases: two files by paths and by a pattern, without and with index files."""
    return [
        Case(
            name="two files",
            spec="jsonl",
            prepare=write,
            make=by_paths,
            make_larger=larger,
            ways={Capability.GLOBS: by_pattern},
            elements=_LINES,
        ),
        Case(
            name="indexed files",
            spec="jsonl",
            prepare=write_indexed,
            make=by_paths,
            make_larger=larger,
            ways={Capability.GLOBS: by_pattern},
            elements=_LINES,
        ),
    ]


def _paths(directory: str) -> list[str]:
    return [os.path.join(directory, name) for name in ("a.jsonl", "b.jsonl")]


def _larger(directory: str) -> str:
    return os.path.join(directory, "larger", "a.jsonl")


def write(directory: str) -> None:
    """Write two files."""
    for path, lines in zip(_paths(directory), (_LINES[:6], _LINES[6:]), strict=True):
        with open(path, "w", encoding="utf-8") as file:
            file.writelines(json.dumps(line) + "\n" for line in lines)
    os.makedirs(os.path.join(directory, "larger"))
    with open(_larger(directory), "w", encoding="utf-8") as file:
        file.writelines(json.dumps(line) + "\n" for line in _LINES * 20)


def write_indexed(directory: str) -> None:
    """Write two files and their index files."""
    write(directory)
    for path in (*_paths(directory), _larger(directory)):
        write_index(path)


def by_paths(directory: str) -> JsonLinesDataSource:
    """Open the files by paths."""
    return JsonLinesDataSource(_paths(directory))


def larger(directory: str) -> JsonLinesDataSource:
    """Open a longer file, to check that pickles do not grow with the data."""
    return JsonLinesDataSource(_larger(directory))


def by_pattern(directory: str) -> JsonLinesDataSource:
    """Open the files by a pattern."""
    return JsonLinesDataSource(os.path.join(directory, "*.jsonl"))
