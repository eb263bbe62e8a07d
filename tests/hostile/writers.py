"""A file format with a good writer; each hostile writer breaks one rule."""

from __future__ import annotations

import contextlib
import itertools
import json
import operator
import os
from collections.abc import Iterable
from typing import Any

RECORDS = [b"record %d" % number for number in range(9)]
MARK = b"!"


class LinesSource:
    """The lines of a file, as bytes."""

    def __init__(self, path: str):
        with open(path, "rb") as file:
            self._lines = file.read().splitlines()

    def __len__(self) -> int:
        return len(self._lines)

    def __getitem__(self, index: Any) -> bytes:
        return self._lines[operator.index(index)]


def path_in(directory: str) -> str:
    return os.path.join(directory, "some.lines")


def prepare(directory: str) -> None:
    write(path_in(directory), RECORDS)


def make(directory: str) -> LinesSource:
    return LinesSource(path_in(directory))


# --- good -----------------------------------------------------------------------------------


def write(path: str, elements: Iterable[Any]) -> int:
    temporary = f"{path}.part"
    try:
        count = write_in_place(temporary, elements)
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        raise
    return count


def encode(element: Any) -> bytes:
    return element if isinstance(element, bytes) else MARK + json.dumps(element).encode()


def decode(record: bytes) -> Any:
    return json.loads(record.removeprefix(MARK)) if record.startswith(MARK) else record


# --- hostile -------------------------------------------------------------------------------------


def write_in_place(path: str, elements: Iterable[Any]) -> int:
    with open(path, "wb") as file:
        return sum(bool(file.write(encode(element) + b"\n")) for element in elements)


def loses_the_last(path: str, elements: Iterable[Any]) -> int:
    written = list(elements)
    write(path, written[:-1])
    return len(written)


def needs_a_list(path: str, elements: Any) -> int:
    return write(path, elements[:])


def counts_nothing(path: str, elements: Iterable[Any]) -> None:
    write(path, elements)


def needs_a_first_element(path: str, elements: Iterable[Any]) -> int:
    iterator = iter(elements)
    return write(path, itertools.chain([next(iterator)], iterator))


def writes_no_empty_file(path: str, elements: Iterable[Any]) -> int:
    written = list(elements)
    return write(path, written) if written else 0


def appends(path: str, elements: Iterable[Any]) -> int:
    added = list(elements)
    before = []
    if os.path.exists(path):
        before = list(LinesSource(path))
    write(path, [*before, *added])
    return len(added)


def refuses_an_existing_file(path: str, elements: Iterable[Any]) -> int:
    if os.path.exists(path):
        raise FileExistsError(path)
    return write(path, elements)


def swallows_errors(path: str, elements: Iterable[Any]) -> int:
    def until_it_fails() -> Any:
        with contextlib.suppress(Exception):
            yield from elements

    return write(path, until_it_fails())


def leaves_its_temporary_file(path: str, elements: Iterable[Any]) -> int:
    count = write_in_place(f"{path}.part", elements)
    os.replace(f"{path}.part", path)
    return count


def removes_the_existing_file(path: str, elements: Iterable[Any]) -> int:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)
    return write(path, elements)


def decodes_by_guessing(record: bytes) -> Any:
    try:
        return json.loads(record.removeprefix(MARK))
    except ValueError:
        return record


def decodes_to_text(record: bytes) -> Any:
    return record.removeprefix(MARK).decode() if record.startswith(MARK) else record
