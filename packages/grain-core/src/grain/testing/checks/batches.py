"""Batched reads and columns say what single reads say."""

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
    """`__getitems__(indices)` gives the list of what reading each index alone gives.

    Return a list, and make its elements by the same code that makes single ones.
    """
    indices = list(subject.indices)
    _compare_batched(subject, indices, indices)
    for index in indices[:3]:
        _compare_batched(subject, [index], [index])


def check_batched_read_order(subject: Subject) -> None:
    """`__getitems__` answers in the order of the indices, whatever it is.

    Sort to read if that is faster, and put the records back in the order asked for.
    """
    indices = list(subject.indices)
    for order in (indices[::-1], random.Random(1).sample(indices, len(indices))):
        _compare_batched(subject, order, order)


def check_batched_read_repeats(subject: Subject) -> None:
    """`__getitems__` gives a record as often as its index is there.

    Do not make a set or a dict of the indices, or spread its records over all of them.
    """
    indices = list(subject.indices)[:5]
    for order in (indices[:1] * 3, [i for index in indices for i in (index, index)]):
        _compare_batched(subject, order, order)


def check_batched_read_empty(subject: Subject) -> None:
    """`__getitems__([])` is an empty list.

    Return `[]` first thing when there are no indices.
    """
    _compare_batched(subject, [], [])


def check_batched_read_array_indices(subject: Subject) -> None:
    """`__getitems__` takes an array of numpy's integers as it takes a list.

    Write `len(indices)`, not `if indices`, and `numpy.asarray(indices)` or `operator.index`.
    """
    indices = list(subject.indices)
    _compare_batched(subject, indices, np.asarray(indices, np.int64))
    _compare_batched(subject, indices[::-1], np.asarray(indices, np.int64)[::-1])
    _compare_batched(subject, [], np.empty(0, np.int64))


def check_batched_read_out_of_range(subject: Subject) -> None:
    """`__getitems__` raises IndexError when one of the indices is outside of the source.

    Check the least and the greatest index before reading.
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
        raise AssertionError(f"__getitems__({indices}) of {length} records gave {got!r:.80}.")


def check_columns_equal_stacked_records(subject: Subject) -> None:
    """`__getcolumns__(indices)` is what stacking the single records gives, or None.

    Keep dtypes, all keys (in any order: batches have them sorted), and the order and repetition of
    indices; return None where records do not stack.
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
    assert isinstance(records, list), f"{what} gave a {type(records).__name__}, not a list."
    expect_same_all([by_index[index] for index in order], records, what)


def _short(indices: Any) -> str:
    text = " ".join(repr(indices).split())
    return text if len(text) <= 60 else f"{text[:57]}…"
