"""Sources: how they are read one by one, many at a time and by columns, and what their faults do."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import grain
from grain import tree

Map = grain.MapDataset


class Records:
    """Twenty records; counts how it is read."""

    def __init__(self) -> None:
        self.reads: list[Any] = []

    def __len__(self) -> int:
        return 20

    def __getitem__(self, index: int) -> Any:
        self.reads.append(index)
        return {"x": np.float32(index), "y": np.array([index, -index])}


class ManyRecords(Records):
    def __getitems__(self, indices: list[int]) -> list[Any]:
        self.reads.append(list(indices))
        return [Records().__getitem__(index) for index in indices]


class ColumnRecords(ManyRecords):
    def __getcolumns__(self, indices: Any) -> Any:
        self.reads.append(("columns", np.asarray(indices).tolist()))
        return tree.stack([Records().__getitem__(int(index)) for index in indices])


def same(one: Any, other: Any) -> bool:
    pairs = zip(tree.leaves(one), tree.leaves(other), strict=True)
    return all(
        np.array_equal(a, b) and np.asarray(a).dtype == np.asarray(b).dtype for a, b in pairs
    )


# --- many at a time ------------------------------------------------------------------------------


def test_a_source_is_read_many_records_at_a_time_in_the_order_given():
    source = ManyRecords()
    elements = Map.source(source).__getitems__([7, 3, 7, 22, -1])
    assert source.reads == [[7, 3, 7, 2, 19]]
    assert [int(element["x"]) for element in elements] == [7, 3, 7, 2, 19]


def test_indices_that_a_source_gets_are_integers_of_python_inside_of_it():
    source = ManyRecords()
    list(Map.source(source).shuffle(1).repeat(2))
    for indices in source.reads:
        assert all(type(index) is int and 0 <= index < 20 for index in indices)


@pytest.mark.parametrize("kind", [Records, ManyRecords, ColumnRecords])
@given(indices=st.lists(st.integers(-50, 50), min_size=1, max_size=12))
@settings(deadline=None, max_examples=20)
def test_every_way_of_reading_gives_the_same_elements_and_batches(kind, indices):
    expected = [Records()[index % 20] for index in indices]
    assert same(Map.source(kind()).__getitems__(indices), expected)
    batches = Map.source(kind()).slice([index % 20 for index in indices]).batch(5)
    expected_batches = [tree.stack(expected[i : i + 5]) for i in range(0, len(expected), 5)]
    assert same(list(batches), expected_batches)
    assert same([batches[i] for i in range(len(batches))], expected_batches)


class WrongCount(Records):
    def __init__(self, difference: int):
        super().__init__()
        self.difference = difference

    def __getitems__(self, indices: list[int]) -> list[Any]:
        return [None] * (len(indices) + self.difference)


class GivesNone(Records):
    difference = -20

    def __getitems__(self, indices: list[int]) -> Any:
        return None


@pytest.mark.parametrize(
    "source",
    [WrongCount(-1), WrongCount(1), WrongCount(-20), GivesNone()],
    ids=["one too few", "one too many", "none", "nothing"],
)
def test_a_batched_read_that_gives_another_number_of_records_is_an_error_with_both_counts(source):
    ds = Map.source(source)
    indices = [*range(19), 25]
    for read in (
        lambda: ds.__getitems__(indices),
        lambda: ds.slice(slice(0, 20)).batch(20)[0],
        lambda: next(iter(ds.batch(20).to_iter_dataset())),
    ):
        with pytest.raises(ValueError, match="indices") as caught:
            read()
        name = f"{type(source).__name__}.__getitems__"
        said = (
            f"{name} returned {20 + source.difference} records for 20 indices (0, 1, 2, 3, 4, ...)"
        )
        assert said in str(caught.value)
        assert f"SourceMapDataset(source={type(source).__name__})" in caught.value.__notes__[0]


class FailsHalfWay(Records):
    def __getitem__(self, index: int) -> Any:
        if index == 7:
            raise OSError("no such record")
        return super().__getitem__(index)

    def __getitems__(self, indices: list[int]) -> Any:
        return (self[index] for index in indices)


def test_a_batched_read_that_fails_at_one_record_names_its_index():
    with pytest.raises(OSError, match="no such record") as caught:
        Map.source(FailsHalfWay()).__getitems__([3, 27, 4])
    assert "at index 27" in caught.value.__notes__[0]


class FailingBatchedRead(Records):
    def __getitems__(self, indices: list[int]) -> list[Any]:
        raise NotImplementedError("not for these")


def test_a_batched_read_that_fails_is_done_again_one_by_one():
    ds = Map.source(FailingBatchedRead())
    assert [int(element["x"]) for element in ds] == list(range(20))


class AnyIterable(Records):
    def __getitems__(self, indices: list[int]) -> Any:
        return (index for index in indices)


def test_a_batched_read_may_give_any_iterable():
    assert list(Map.source(AnyIterable())) == list(range(20))


# --- columns -------------------------------------------------------------------------------------


def test_batches_right_above_index_operations_come_from_columns():
    source = ColumnRecords()
    ds = Map.source(source).shuffle(1)[2:14].repeat(2).seed(3).batch(6)
    batch = ds[0]
    assert [kind for kind, _ in source.reads] == ["columns"]
    assert batch["y"].shape == (6, 2)


@pytest.mark.parametrize(
    "above",
    [
        lambda ds: ds.map(lambda x: x).batch(4),
        lambda ds: ds.batch(4, batch_fn=list),
        lambda ds: ds.to_iter_dataset().batch(4),
    ],
)
def test_other_operations_get_records(above):
    source = ColumnRecords()
    list(above(Map.source(source)))
    assert not any(type(read) is tuple for read in source.reads)


class OddColumns(Records):
    """A source with given columns."""

    def __init__(self, columns: Any):
        super().__init__()
        self.columns = columns

    def __getcolumns__(self, indices: Any) -> Any:
        return self.columns(indices)


def read_only(indices: Any) -> Any:
    column = np.asarray(indices, dtype=np.float32)
    column.flags.writeable = False
    return {"x": column, "y": np.stack([column, -column], axis=1).astype(int)}


def failing(indices: Any) -> Any:
    raise OSError("no columns today")


@pytest.mark.parametrize(
    "columns",
    [
        lambda indices: None,
        failing,
        lambda indices: {"x": list(indices), "y": 3},
        lambda indices: np.float32(1),
        read_only,
    ],
    ids=["none", "failing", "no arrays", "no dimension", "read-only"],
)
def test_columns_that_do_not_fit_are_not_used(columns):
    expected = list(Map.source(Records()).batch(3))
    for batches in (
        list(Map.source(OddColumns(columns)).batch(3)),
        [Map.source(OddColumns(columns)).batch(3)[i] for i in range(7)],
    ):
        assert same(batches, expected)
        for leaf in tree.leaves(batches):
            assert leaf.flags.writeable


@pytest.mark.parametrize("difference", [-1, 1])
def test_columns_of_another_number_of_records_are_an_error_with_both_counts(difference):
    def columns(indices: Any) -> Any:
        return {"x": np.zeros(len(indices)), "y": np.zeros((len(indices) + difference, 2))}

    ds = Map.source(OddColumns(columns)).batch(3)
    for read in (lambda: ds[1], lambda: list(ds), lambda: list(ds.to_iter_dataset())):
        with pytest.raises(ValueError, match=r"OddColumns.__getcolumns__ returned") as caught:
            read()
        given, asked = map(int, re.findall(r"\d+", str(caught.value))[:2])
        assert given == asked + difference


# --- arrays --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "dtype", ["?", "i1", "u8", "f2", "f8", "c16", "M8[s]", "m8[D]", "S3", "U3", "O", ">i4", ">f8"]
)
def test_batches_of_an_array_are_its_stacked_rows(dtype):
    array = np.arange(12).astype(dtype).reshape(6, 2)
    expected = [np.stack([np.asanyarray(row) for row in array[i : i + 4]]) for i in (0, 4)]
    for ds in (Map.source(array), Map.source(list(array))):
        batches = list(ds.batch(4))
        assert same(batches, expected)
        assert [batch.dtype for batch in batches] == [batch.dtype for batch in expected]


def test_an_array_of_one_dimension_gives_scalars():
    ds = Map.source(np.arange(3, dtype=np.int16))
    assert [type(element) for element in ds] == [np.int16] * 3
    assert ds.batch(3)[0].dtype == np.int16


@pytest.mark.parametrize("source", [[1, 2, 3], (1, 2, 3), "abc", b"abc", range(3), np.arange(3)])
def test_any_sequence_is_a_source(source):
    ds = Map.source(source)
    assert len(ds) == 3
    assert list(ds) == list(source)
    assert ds[4] == source[1]
    assert ds[-1] == source[2]


@pytest.mark.parametrize("bound", [2**61, 2**62, 2**63, 2**80])
def test_ranges_of_any_size_hold_exact_integers(bound):
    ds = Map.range(bound - 5, bound + 5, 3)
    assert list(ds) == list(range(bound - 5, bound + 5, 3))
    assert [int(x) for batch in ds.batch(2) for x in batch.tolist()] == list(ds)
    assert list(Map.range(-bound, -bound + 4)) == list(range(-bound, -bound + 4))


@given(start=st.integers(-20, 20), stop=st.integers(-20, 20), step=st.integers(-5, 5).filter(bool))
@settings(deadline=None)
def test_a_range_is_like_python_s(start, stop, step):
    assert list(Map.range(start, stop, step)) == list(range(start, stop, step))


def test_an_array_without_dimensions_is_refused():
    with pytest.raises(TypeError, match="an array without dimensions"):
        grain.MapDataset.source(np.array(5))
    with pytest.raises(TypeError, match=r"Column \['x'\] is an array without dimensions"):
        grain.MapDataset.source({"x": np.array(3), "n": np.arange(2)})
