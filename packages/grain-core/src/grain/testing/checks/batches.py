"""Batched: `__getitems__` and `__getcolumns__` agree with single reads."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import numpy as np

from grain import tree
from grain.dataset.base import MapDataset
from grain.testing.compare import expect_same, expect_same_all
from grain.testing.subject import Subject


def check_batched_read_equals_single(subject: Subject) -> None:
    """Check that `__getitems__(indices)` returns the list of the records that single reads return.

    Return a list, and build its records with the code that builds single ones.
    """
    indices = list(subject.indices)
    _compare_batched(subject, indices, indices)
    for index in indices[:3]:
        _compare_batched(subject, [index], [index])


def check_batched_read_order(subject: Subject) -> None:
    """Check that `__getitems__` returns the records in the order of the indices.

    If sorting the indices makes reading faster, restore the requested order afterwards.
    """
    indices = list(subject.indices)
    for order in (indices[::-1], random.Random(1).sample(indices, len(indices))):
        _compare_batched(subject, order, order)


def check_batched_read_repeats(subject: Subject) -> None:
    """Check that `__getitems__` returns a record once per occurrence of its index.

    Do not turn the indices into a set or dict, or expand its records to all occurrences again.
    """
    indices = list(subject.indices)[:5]
    for order in (indices[:1] * 3, [i for index in indices for i in (index, index)]):
        _compare_batched(subject, order, order)


def check_batched_read_empty(subject: Subject) -> None:
    """Check that `__getitems__([])` returns an empty list.

    Return `[]` early when there are no indices.
    """
    _compare_batched(subject, [], [])


def check_batched_read_array_indices(subject: Subject) -> None:
    """Check that `__getitems__` accepts an integer array like a list.

    Test `len(indices)`, not `if indices`, and convert with `numpy.asarray` or `operator.index`.
    """
    indices = list(subject.indices)
    _compare_batched(subject, indices, np.asarray(indices, np.int64))
    _compare_batched(subject, indices[::-1], np.asarray(indices, np.int64)[::-1])
    _compare_batched(subject, [], np.empty(0, np.int64))


def check_batched_read_out_of_range(subject: Subject) -> None:
    """Check that `__getitems__` raises IndexError when an index is outside of the source.

    Check the smallest and the largest index before reading.
    """
    source = subject.fresh()
    length = len(source)
    for indices in ([length], [*list(subject.indices)[:2], length + 3]):
        try:
            got = source.__getitems__(indices)
        except IndexError:
            continue
        except Exception as error:
            raise AssertionError(
                f"__getitems__({indices}) of {length} records raised {error!r}, not an IndexError."
            ) from error
        raise AssertionError(f"__getitems__({indices}) of {length} records returned {got!r:.80}.")


def check_columns_equal_stacked_records(subject: Subject) -> None:
    """Check that `__getcolumns__(indices)` returns the stacked single records, or None.

    Keep dtypes, all keys (in any order: batches sort them), and the order and repetition of
    indices; return None for records that do not stack.
    """
    source = subject.fresh()
    indices = list(subject.indices)
    by_index = dict(zip(indices, subject.elements, strict=True))
    orders = [indices, indices[::-1], [*indices[:2], *indices[:2], *indices[-1:]], indices[:1]]
    for order in filter(None, orders):
        columns = source.__getcolumns__(np.asarray(order, np.int64))
        if columns is not None:
            stacked = MapDataset.source([by_index[i] for i in order]).batch(len(order))[0]
            in_order = tree.map_leaves(lambda column: column, columns)
            expect_same(stacked, in_order, f"the columns of {_short(order)}")


def _compare_batched(subject: Subject, order: Sequence[int], indices: Any) -> None:
    by_index = dict(zip(subject.indices, subject.elements, strict=True))
    what = f"__getitems__({_short(indices)})"
    try:
        records = subject.fresh().__getitems__(indices)
    except Exception as error:
        raise AssertionError(f"{what} raised {error!r}.") from error
    assert isinstance(records, list), f"{what} returned a {type(records).__name__}, not a list."
    expect_same_all([by_index[index] for index in order], records, what)


def _short(indices: Any) -> str:
    text = " ".join(repr(indices).split())
    return text if len(text) <= 60 else f"{text[:57]}…"
