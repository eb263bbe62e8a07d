"""Indexable: every index below the length is readable, and no index beyond."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from grain.testing.compare import difference, expect_same, expect_same_all
from grain.testing.subject import NotApplicable, Subject


def check_all_indices_readable(subject: Subject) -> None:
    """Check that `len(source)` is an integer, and every index from 0 up to it is readable.

    Let `__len__` count exactly the records that `__getitem__` returns.
    """
    source = subject.fresh()
    length = len(source)
    assert operator.index(length) >= 0, f"len(source) is {length!r}, expected 0 or more."
    for index in sorted({*subject.sampled_indices} - {*subject.indices}):
        try:
            source[index]
        except Exception as error:
            raise AssertionError(
                f"len(source) is {length}, but source[{index}] raised {error!r}."
            ) from error


def check_expected_elements(subject: Subject) -> None:
    """Check that the elements and their number are those that the case expects.

    Compare the case's `elements` and `length` with the prepared data: either the case is wrong, or the
    source returns wrong elements.
    """
    case = subject.case
    if case.length is None and case.elements is None:
        raise NotApplicable("the case states neither elements nor length")
    is_map = case.kind.is_indexed
    if case.length is not None:
        count = len(subject.fresh() if is_map else subject.elements)
        assert count == case.length, f"expected {case.length} elements, got {count}."
    if case.elements is not None:
        expected = case.elements
        if is_map:
            count = len(subject.fresh())
            assert count == len(expected), f"expected {len(expected)} elements, got {count}."
            expected = [expected[index] for index in subject.indices]
        expect_same_all(expected, subject.elements, "the case's expected elements")


def check_out_of_range_index(subject: Subject) -> None:
    """Check that an index outside of the source raises IndexError; negative ones may count back.

    Check `0 <= index < len(self)` first, or support all of -len(self) to -1 like a list: then
    `source[-1]` is the last record.
    """
    source = subject.fresh()
    length = len(source)
    for index in (length, length + 1, 2 * length + 7, -length - 1):
        is_error = _is_index_error(source, index, length)
        assert is_error, f"source[{index}] of {length} records raised no IndexError."
    negative = [index - length for index in subject.indices]
    refused = [index for index in negative if _is_index_error(source, index, length)]
    assert not refused or refused == negative, (
        f"source[{refused[0]}] of {length} records raises IndexError, but other negative indices do not."
    )
    if not refused:
        for index, expected in zip(negative, subject.elements, strict=True):
            expect_same(expected, source[index], f"source[{index}] is not source[{index + length}]")


def check_numpy_integer_index(subject: Subject) -> None:
    """Check that a numpy integer is a valid index.

    Start `__getitem__` with `index = operator.index(index)`, which accepts every integer type.
    """
    source = subject.fresh()
    for index, expected in zip(subject.indices, subject.elements, strict=True):
        for kind in (np.int64, np.int32, np.uint32, np.intp):
            if index > np.iinfo(kind).max:
                continue
            try:
                actual = source[kind(index)]
            except Exception as error:
                raise AssertionError(
                    f"source[np.{kind.__name__}({index})] raised {error!r}."
                ) from error
            found = difference(expected, actual)
            assert found is None, f"source[np.{kind.__name__}({index})] differs: {found}."


def _is_index_error(source: Any, index: int, length: int) -> bool:
    try:
        source[index]
    except IndexError:
        return True
    except Exception as error:
        raise AssertionError(
            f"source[{index}] of {length} records raised {error!r}, not an IndexError."
        ) from error
    return False
