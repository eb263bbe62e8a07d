"""Indexable: every index below the length is readable, and no index beyond."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from grain.testing.compare import difference, expect_same, expect_same_all
from grain.testing.subject import Subject


def check_all_indices_readable(subject: Subject) -> None:
    """Check that `len(source)` is an integer, and every index from 0 up to it is readable.

    Let `__len__` count exactly the records that `__getitem__` returns.
    """
    source = subject.fresh()
    length = len(source)
    assert operator.index(length) >= 0, f"len(source) is {length!r}, expected 0 or more."
    unread = sorted(set(_sampled(length)) - set(subject.indices))
    for index in unread:
        try:
            source[index]
        except Exception as error:
            raise AssertionError(
                f"len(source) is {length}, but source[{index}] raised {error!r}."
            ) from error


def check_expected_elements(subject: Subject) -> None:
    """Check that the elements and their number are those that the case expects.

    Compare the case's `elements` and `length` with the prepared data; one of them is wrong.
    """
    case = subject.case
    if case.length is not None:
        count = len(subject.fresh()) if case.kind == "map-source" else len(subject.elements)
        assert count == case.length, f"expected {case.length} elements, got {count}."
    if case.elements is not None:
        expect_same_all(list(case.elements), subject.elements, "the case's expected elements")


def check_out_of_range_index(subject: Subject) -> None:
    """Check that an index outside of the source raises IndexError.

    Check `0 <= index < len(self)` first. `source[-1]` may also be the last record, as in a list.
    """
    source = subject.fresh()
    length = len(source)
    for index in (length, length + 1, 2 * length + 7, -length - 1):
        _expect_index_error(source, index, length)
    if length:
        try:
            last = source[-1]
        except IndexError:
            return
        except Exception as error:
            raise AssertionError(f"source[-1] raised {error!r}, not an IndexError.") from error
        expect_same(
            source[length - 1],
            last,
            "source[-1] neither raises IndexError nor returns the last record",
        )


def check_numpy_integer_index(subject: Subject) -> None:
    """Check that a numpy integer is a valid index.

    Start `__getitem__` with `index = operator.index(index)`, which accepts every integer type.
    """
    source = subject.fresh()
    for index, expected in zip(subject.indices, subject.elements, strict=True):
        for kind in (np.int64, np.int32, np.uint32, np.intp):
            try:
                actual = source[kind(index)]
            except Exception as error:
                raise AssertionError(
                    f"source[np.{kind.__name__}({index})] raised {error!r}."
                ) from error
            found = difference(expected, actual)
            assert found is None, f"source[np.{kind.__name__}({index})] differs: {found}."


def _expect_index_error(source: Any, index: int, length: int) -> None:
    try:
        element = source[index]
    except IndexError:
        return
    except Exception as error:
        raise AssertionError(
            f"source[{index}] of {length} records raised {error!r}, not an IndexError."
        ) from error
    raise AssertionError(f"source[{index}] of {length} records returned {element!r:.80}.")


def _sampled(length: int) -> range:
    return range(length) if length <= 64 else range(0, length, -(-length // 64))
