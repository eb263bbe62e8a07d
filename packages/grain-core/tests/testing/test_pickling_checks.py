"""Contents of files are found in pickles, wherever in the file they are from, and whatever its bytes."""

from __future__ import annotations

import functools
import os
import random
from collections.abc import Callable
from typing import Any

import pytest

from grain.testing import Case, Outcome, Result

from .cases import result_of

NUMBERS = b"".join((3 * n).to_bytes(8, "little") for n in range(20))
TEXT = "\n".join(f"record number {n}" for n in range(20)).encode()
MORE_NUMBERS = b"".join((3 * n).to_bytes(8, "little") for n in range(200))
MORE_TEXT = "\n".join(f"record number {n}" for n in range(200)).encode()
RANDOM = random.Random(1).randbytes(3000)
ZEROS = bytes(500)


class Keeps:
    """A source that keeps a part of its file, and a path."""

    def __init__(self, directory: str, part: Callable[[bytes], Any]):
        self.path = os.path.join(directory, "records.bin")
        with open(self.path, "rb") as file:
            self.kept = part(file.read())

    def __len__(self) -> int:
        return 5

    def __getitem__(self, index: int) -> int:
        return range(5)[index]


def everything(data: bytes) -> bytes:
    return data


def as_text(data: bytes) -> str:
    return data.decode("latin1")


def first_half(data: bytes) -> bytes:
    return data[: len(data) // 2]


def middle_half(data: bytes) -> bytes:
    return data[len(data) // 4 : -len(data) // 4]


def last_half(data: bytes) -> bytes:
    return data[len(data) // 2 :]


def nothing(data: bytes) -> bytes:
    return b""


def header_and_footer(data: bytes) -> tuple[bytes, bytes]:
    return data[:24], data[-24:]


def write(content: bytes, directory: str) -> None:
    with open(os.path.join(directory, "records.bin"), "wb") as file:
        file.write(content)


def found_in(content: bytes, part: Callable[[bytes], Any]) -> Result:
    case = Case(
        name="keeps",
        prepare=functools.partial(write, content),
        make=functools.partial(Keeps, part=part),
    )
    return result_of(case, "check_pickle_without_file_contents")


@pytest.mark.parametrize("part", [everything, first_half, middle_half, last_half])
@pytest.mark.parametrize(
    "content", [MORE_NUMBERS, MORE_TEXT, RANDOM], ids=["numbers", "text", "random"]
)
def test_contents_of_a_file_are_found(content, part):
    result = found_in(content, part)
    assert result.outcome is Outcome.FAILED
    assert "contents of 'records.bin'" in result.reason
    assert ("a large part" in result.reason) is (part is not everything)


@pytest.mark.parametrize("content", [NUMBERS, TEXT], ids=["numbers", "text"])
def test_all_of_a_small_file_is_found_and_a_part_of_it_may_be_a_name_or_a_schema(content):
    assert found_in(content, everything).outcome is Outcome.FAILED
    assert found_in(content, first_half).outcome is Outcome.PASSED


def test_contents_of_a_text_file_are_found_in_text():
    assert found_in(TEXT, as_text).outcome is Outcome.FAILED


@pytest.mark.parametrize("part", [nothing, header_and_footer])
@pytest.mark.parametrize("content", [NUMBERS, TEXT, RANDOM], ids=["numbers", "text", "random"])
def test_a_pickle_without_contents_or_with_a_header_passes(content, part):
    assert found_in(content, part).outcome is Outcome.PASSED


@pytest.mark.parametrize("content", [b"", b"a short one", ZEROS], ids=["empty", "short", "zeros"])
def test_files_that_cannot_be_recognized_skip_the_check_with_the_reason(content):
    result = found_in(content, everything)
    assert result.outcome is Outcome.SKIPPED
    assert "can be recognized" in result.reason


def test_a_case_without_files_passes():
    assert result_of(Case(name="list", make=list), "check_pickle_without_file_contents").ok
