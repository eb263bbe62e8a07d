"""Elements are stored in shared memory and read back equal."""

from __future__ import annotations

import collections
import datetime as dt
import errno
import gc
import os
import pickle
from multiprocessing import shared_memory

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.equality import same
from tests.threads import run_in_threads

from grain_inmemory import InMemoryDataSource, SharedMemoryDataSource

BUILTINS = [1, 2.5, True, False, None, "héllo", b"\x00ab\x00", "", b"", -(2**62), 2**200, "\ud800"]
Point = collections.namedtuple("Point", "x y")


def test_in_memory_and_shared_memory_are_two_names_of_one_class():
    assert InMemoryDataSource is SharedMemoryDataSource


@pytest.mark.parametrize(
    "elements",
    [
        BUILTINS,
        [1, 2, 3],
        [1, 2**63],
        [0.5, float("nan"), float("-inf")],
        [1, 2.0],
        [True, False],
        range(10),
        range(7, -4, -3),
        ["a", "b", "c"],
        [[1, [2]], {"a": (1, 2)}, {1}, Point(1, 2), dt.date(2020, 1, 1)],
        [np.int64(1), np.float32(2), np.arange(3), {"x": np.zeros((2, 2))}],
        collections.deque([1, 2]),
        [],
        (),
    ],
    ids=str,
)
def test_elements_are_read_back_equal_and_of_the_same_type(elements):
    with InMemoryDataSource(elements) as source:
        assert len(source) == len(elements)
        for read in (list(source), source.__getitems__(range(len(source)))):
            assert len(read) == len(elements)
            assert all(same(a, b) for a, b in zip(elements, read, strict=True))


@given(
    elements=st.lists(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(),
        max_size=30,
    ),
    data=st.data(),
)
@settings(deadline=None, max_examples=60)
def test_a_batched_read_equals_single_reads_in_the_requested_order(elements, data):
    with InMemoryDataSource(elements) as source:
        inside = st.lists(st.integers(0, len(elements) - 1), max_size=40)
        indices = data.draw(inside) if elements else []
        for requested in (indices, np.array(indices, np.int64)):
            read = source.__getitems__(requested)
            assert len(read) == len(indices)
            assert all(same(elements[i], b) for i, b in zip(indices, read, strict=True))


def test_an_iterator_is_read_once_and_kept():
    with InMemoryDataSource(x * x for x in range(4)) as source:
        assert list(source) == [0, 1, 4, 9]
        assert list(source) == [0, 1, 4, 9]


COLUMNS = {
    "id": np.arange(6),
    "image": np.arange(24, dtype=np.uint8).reshape(6, 2, 2),
    "name": np.array(list("abcdef")),
    "when": np.arange(6).astype("datetime64[s]"),
    "half": np.arange(6, dtype=np.float16)[::-1],
}


def test_a_dict_of_arrays_gives_a_dict_of_rows_for_each_element():
    with InMemoryDataSource(COLUMNS) as source:
        assert len(source) == 6
        rows = [{name: column[i] for name, column in COLUMNS.items()} for i in range(6)]
        assert all(same(rows[i], source[i]) for i in range(6))
        order = [5, 0, 0, 3]
        assert all(
            same(rows[i], row) for i, row in zip(order, source.__getitems__(order), strict=True)
        )
        stacked = source.__getcolumns__(order)
        assert stacked.keys() == COLUMNS.keys()
        for name, column in COLUMNS.items():
            assert same(np.stack([column[i] for i in order]), stacked[name])


def test_an_array_gives_its_rows():
    array = np.arange(12.0).reshape(4, 3)
    with InMemoryDataSource(array) as source:
        assert same(array[2], source[2])
        assert same(array[[3, 1]], source.__getcolumns__([3, 1]))
    with InMemoryDataSource(np.zeros((0, 3))) as source:
        assert len(source) == 0
        assert source.__getitems__([]) == []


def test_scalars_stack_like_their_list_and_other_elements_do_not():
    with InMemoryDataSource(range(10)) as source:
        assert same(np.array([3, 1]), source.__getcolumns__([3, 1]))
    with InMemoryDataSource([1.0, 2.0]) as source:
        assert same(np.array([2.0]), source.__getcolumns__([1]))
    with InMemoryDataSource([1, "a"]) as source:
        assert source.__getcolumns__([0]) is None


def test_elements_are_copies_that_may_be_changed():
    with InMemoryDataSource(COLUMNS) as source:
        for image in (
            source[1]["image"],
            source.__getitems__([1])[0]["image"],
            source.__getcolumns__([1])["image"],
        ):
            image[...] = 99
        assert same(COLUMNS["image"][1], source[1]["image"])


def test_elements_outlive_the_source():
    source = InMemoryDataSource(COLUMNS)
    row, many = source[1], source.__getitems__([1, 2])
    source.close()
    source.unlink()
    del source
    gc.collect()
    assert same(COLUMNS["image"][1], row["image"])
    assert same(COLUMNS["image"][2], many[1]["image"])


def test_indices_are_whole_numbers_inside_of_the_source():
    with InMemoryDataSource([10, 20, 30]) as source:
        assert source[np.int64(1)] == source[np.uint8(1)] == 20
        for outside in (3, -4, 10**20):
            with pytest.raises(IndexError, match="index out of range"):
                source[outside]
        for outside in ([0, 3], [-4], np.array([0, 3])):
            with pytest.raises(IndexError, match="index out of range"):
                source.__getitems__(outside)
            with pytest.raises(IndexError, match="index out of range"):
                source.__getcolumns__(outside)
        for wrong in ("a", 1.0, slice(0, 1), None):
            with pytest.raises(TypeError):
                source[wrong]
        with pytest.raises(TypeError, match="integers"):
            source.__getitems__([0.5])
        with pytest.raises(TypeError, match="flat"):
            source.__getitems__([[0]])


def test_a_source_is_a_sequence():
    with InMemoryDataSource(["a", "b", "a"]) as source:
        assert source.index("b") == 1
        assert source.count("a") == 2
        assert "b" in source
        assert "c" not in source
        assert list(reversed(source)) == ["a", "b", "a"]


def test_str_names_the_memory_and_repr_identifies_the_contents():
    with InMemoryDataSource(range(5)) as source:
        assert str(source) == f"InMemoryDataSource(name={source.name}, len=5)"
        assert source.shm.name == source.name
        with InMemoryDataSource(range(5)) as again:
            assert repr(again) == repr(source)
            assert again.name != source.name
        for other in (range(6), range(1, 6), [0.0, 1.0, 2.0, 3.0, 4.0], list("01234")):
            with InMemoryDataSource(other) as different:
                assert repr(different) != repr(source)


def test_elements_that_cannot_be_stored_are_refused_with_a_reason():
    with pytest.raises(ValueError, match="Elements or name must be provided"):
        InMemoryDataSource()
    with pytest.raises(TypeError, match="Element 1, a generator, cannot be stored"):
        InMemoryDataSource([1, (x for x in [])])
    with pytest.raises(ValueError, match=r"same length, got \{'a': 1, 'b': 2\}"):
        InMemoryDataSource({"a": np.zeros(1), "b": np.zeros(2)})
    with pytest.raises(ValueError, match="at least one column"):
        InMemoryDataSource({})
    with pytest.raises(TypeError, match="Column 'a' holds Python objects"):
        InMemoryDataSource({"a": np.array([{}, None])})
    with pytest.raises(TypeError, match="Column 'a' must have at least one dimension"):
        InMemoryDataSource({"a": 5})
    with pytest.raises(TypeError, match="Column names must be strings"):
        InMemoryDataSource({1: np.zeros(1)})
    for wrong in (5, "text", b"bytes"):
        with pytest.raises(TypeError, match="Elements must be a sequence"):
            InMemoryDataSource(wrong)


def test_a_source_pickles_to_its_name_however_large_it_is():
    with InMemoryDataSource({"x": np.zeros((1000, 1000))}) as source:
        data = pickle.dumps(source)
        assert len(data) < 300
        copy = pickle.loads(data)
        assert same(copy[3]["x"], np.zeros(1000))
        assert repr(copy) == repr(source)


def test_threads_read_while_others_close():
    elements = [f"element {i}" for i in range(500)]
    source = InMemoryDataSource(elements)

    def read(seed: int) -> None:
        for indices in np.random.default_rng(seed).integers(0, 500, (100, 20)):
            assert source.__getitems__(indices) == [elements[i] for i in indices]
            if seed == 0:
                source.close()

    run_in_threads(read, 5)
    source.unlink()


@pytest.mark.skipif(not hasattr(os, "posix_fallocate"), reason="needs posix_fallocate")
def test_more_memory_than_available_is_a_memory_error(monkeypatch):
    def full(handle: int, offset: int, size: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "posix_fallocate", full)
        with pytest.raises(MemoryError, match="--shm-size"):
            InMemoryDataSource([1], name="grain_test_no_room")
    with pytest.raises(FileNotFoundError):
        InMemoryDataSource(name="grain_test_no_room")


def test_a_masked_array_is_refused():
    masked = np.ma.array([1, 2], mask=[False, True])
    for elements, what in ((masked, "The array"), ({"a": masked}, "Column 'a'")):
        with pytest.raises(TypeError, match=f"{what} is masked"):
            SharedMemoryDataSource(elements)


def test_a_column_of_uneven_lists_is_named():
    with pytest.raises(ValueError, match=r"Column 'a' cannot be converted.*list of dicts"):
        SharedMemoryDataSource({"a": [[1], [2, 3]]})


@pytest.mark.parametrize(
    "name", ["", "a/b", "a\0b", "x" * 300], ids=["empty", "slash", "null", "long"]
)
def test_a_name_that_memory_cannot_have_is_refused(name):
    with pytest.raises(ValueError, match="cannot be named"):
        SharedMemoryDataSource([1], name=name)


def test_damaged_memory_is_named():
    with SharedMemoryDataSource(range(5)) as source:
        memory = shared_memory.SharedMemory(name=source.name)
        try:
            memory.buf[8:40] = b"\x07" + b"\0" * 31
            with pytest.raises(ValueError, match=rf"named '{source.name}' is damaged"):
                SharedMemoryDataSource(name=source.name)
        finally:
            memory.close()


def test_structured_and_extension_types_are_kept():
    ml_dtypes = pytest.importorskip("ml_dtypes")
    padded = np.dtype([("a", "i1"), ("b", "<f8", (2,))], align=True)
    for array in (np.zeros(3, padded), np.arange(4).astype(ml_dtypes.bfloat16)):
        with InMemoryDataSource({"x": array}) as source:
            assert source.__getcolumns__([0, 2])["x"].dtype == array.dtype
            assert SharedMemoryDataSource(name=source.name)[1]["x"] == array[1]


def test_negative_indices_count_from_the_end_as_in_a_list() -> None:
    with SharedMemoryDataSource([5, 6, 7]) as source:
        assert [source[index] for index in (-1, -2, -3)] == [7, 6, 5]
        assert source.__getitems__([-1, 0, -3]) == [7, 5, 5]
    with SharedMemoryDataSource({"a": np.arange(4), "b": np.arange(4) / 2}) as source:
        assert source[-1] == {"a": 3, "b": 1.5}
        assert source.__getcolumns__([-1, 1])["a"].tolist() == [3, 1]
    with SharedMemoryDataSource([]) as source, pytest.raises(IndexError, match="0 elements"):
        source[-1]
