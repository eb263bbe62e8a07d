"""Columns as a source: what becomes which rows, batches, workers, and what is refused."""

from __future__ import annotations

import datetime as dt
import pickle
import subprocess
import sys
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import grain
from grain import tree
from grain.sources import ColumnarDataSource

Map = grain.MapDataset
X = np.arange(12, dtype=np.float32).reshape(4, 3)
LABEL = np.array([3, 1, 4, 1], np.int16)
TEXT = ["a", "", "ü\ud800", "dd"]
STRUCTURED = np.array([(1, 0.5), (2, 1.5)], [("count", "i4"), ("weight", "f8")])


class Pair(NamedTuple):
    x: Any
    label: Any


def same(one: Any, other: Any) -> bool:
    """Return whether two records have equal structure, types and values."""
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, (list, tuple)):
        pairs = zip(one, other, strict=True)
        return type(one) is type(other) and all(same(a, b) for a, b in pairs)
    if isinstance(one, (np.ndarray, np.generic)):
        return type(one) is type(other) and one.dtype == other.dtype and np.array_equal(one, other)
    return type(one) is type(other) and bool(one == other)


def arrow_table() -> pa.Table:
    columns = {
        "id": pa.chunked_array([[1, 2], [3]]),
        "maybe": pa.array([1, None, 3]),
        "text": pa.array(["a", None, "ccc"]),
        "vector": pa.array([[1.0, 2.0]] * 3, pa.list_(pa.float32(), 2)),
        "tokens": pa.chunked_array([pa.array([[1], [2, 3]]), pa.array([[]], pa.list_(pa.int64()))]),
        "day": pa.array([dt.date(2020, 1, day) for day in (1, 2, 3)]),
        "kind": pa.array(["x", "y", "x"]).dictionary_encode(),
    }
    return pa.table(columns)


SOURCES: dict[str, tuple[Any, list[Any]]] = {
    "dictionary": (
        {"x": X, "label": LABEL, "text": TEXT},
        [{"x": X[i], "label": LABEL[i], "text": TEXT[i]} for i in range(4)],
    ),
    "nested": (
        {"x": X, "more": {"label": LABEL}},
        [{"x": X[i], "more": {"label": LABEL[i]}} for i in range(4)],
    ),
    "one row": ({"x": X[:1]}, [{"x": X[0]}]),
    "no rows": ({"x": X[:0], "text": []}, []),
    "tuple": (ColumnarDataSource((X, LABEL)), [(X[i], LABEL[i]) for i in range(4)]),
    "named tuple": (ColumnarDataSource(Pair(X, LABEL)), [Pair(X[i], LABEL[i]) for i in range(4)]),
    "structured": (
        ColumnarDataSource(STRUCTURED),
        [{"count": row["count"], "weight": row["weight"]} for row in STRUCTURED],
    ),
    "pandas": (
        pd.DataFrame(
            {
                "id": [1, 2, 3],
                "text": ["a", None, "ccc"],
                "nullable": pd.array([1, None, 3], "Int64"),
                "filled": pd.array([1, 2, 3], "Int32"),
                "kind": pd.Categorical(["x", "y", "x"]),
            },
            index=[7, 0, 7],
        ),
        [
            {"id": np.int64(1), "text": "a", "nullable": 1, "filled": np.int32(1), "kind": "x"},
            {"id": np.int64(2), "text": None, "nullable": None, "filled": np.int32(2), "kind": "y"},
            {"id": np.int64(3), "text": "ccc", "nullable": 3, "filled": np.int32(3), "kind": "x"},
        ],
    ),
    "polars": (
        pl.DataFrame(
            {
                "id": [1, 2],
                "text": ["a", None],
                "list": [[1, 2], [3]],
                "names": [["a"], []],
                "vector": pl.Series([[1.0, 2.0], [3.0, 4.0]], dtype=pl.Array(pl.Float32, 2)),
            }
        ),
        [
            {
                "id": np.int64(1),
                "text": "a",
                "list": np.array([1, 2]),
                "names": ["a"],
                "vector": np.array([1, 2], np.float32),
            },
            {
                "id": np.int64(2),
                "text": None,
                "list": np.array([3]),
                "names": [],
                "vector": np.array([3, 4], np.float32),
            },
        ],
    ),
    "pyarrow": (
        arrow_table(),
        [
            {
                "id": np.int64(i + 1),
                "maybe": [1, None, 3][i],
                "text": ["a", None, "ccc"][i],
                "vector": np.array([1, 2], np.float32),
                "tokens": [np.array([1]), np.array([2, 3]), np.array([], np.int64)][i],
                "day": np.datetime64(f"2020-01-0{i + 1}", "D"),
                "kind": "xyx"[i],
            }
            for i in range(3)
        ],
    ),
}


@pytest.mark.parametrize("name", SOURCES)
def test_rows_are_the_same_one_by_one_and_many_at_a_time_and_after_pickling(name):
    given_source, expected = SOURCES[name]
    ds = Map.source(given_source)
    assert len(ds) == len(expected)
    assert same([ds[i] for i in range(len(ds))], expected)
    order = [i % len(ds) for i in (2, 0, 0, 1)] if expected else []
    for each in (ds, pickle.loads(pickle.dumps(ds))):
        assert same(each.__getitems__(order), [expected[i] for i in order])
        assert same(list(each), expected)
        assert each.fingerprint() == ds.fingerprint()


@pytest.mark.parametrize("name", ["dictionary", "nested", "tuple", "named tuple", "structured"])
def test_batches_are_the_stacked_rows(name):
    given_source, expected = SOURCES[name]
    found = list(Map.source(given_source).shuffle(seed=1).batch(3))
    order = list(Map.range(len(expected)).shuffle(seed=1))
    chunks = [order[:3], order[3:]] if len(order) > 3 else [order]
    assert same(found, [tree.stack([expected[i] for i in chunk]) for chunk in chunks])


@given(
    length=st.integers(1, 20),
    width=st.integers(0, 3),
    indices=st.lists(st.integers(-40, 40), min_size=1, max_size=9),
    kind=st.sampled_from(["float32", ">i4", "U3", "S2", "datetime64[s]", "bool", "complex64"]),
)
@settings(deadline=None, max_examples=60)
def test_columnar_reading_equals_reading_rows(length, width, indices, kind):
    column = np.arange(length * width).reshape(length, width).astype(kind)
    ds = Map.source({"a": column, "b": [str(i) for i in range(length)]})
    rows = [{"a": column[i % length], "b": str(i % length)} for i in indices]
    assert same(ds.__getitems__(indices), rows)
    batch = ds.slice([i % length for i in indices]).batch(len(indices))[0]
    assert same(batch, tree.stack(rows))


def test_rows_may_be_changed_without_changing_the_columns():
    x = X.copy()
    ds = Map.source({"x": x, "y": {"z": x}})
    for row in (ds[0], ds.__getitems__([0])[0], ds.batch(2)[0], next(iter(ds))):
        row["x"][:] = -1
        row["y"]["z"][:] = -1
    assert np.array_equal(x, X)


@pytest.mark.parametrize("name", ["dictionary", "tuple", "pandas", "polars", "pyarrow"])
def test_workers_read_the_same_rows(name):
    given_source, expected = SOURCES[name]
    ds = Map.source(given_source).to_iter_dataset().mp_prefetch(num_workers=1)
    assert same(list(ds), expected)


def test_numbers_text_and_pyarrow_are_sent_to_workers_by_reference_to_their_memory():
    text = ["some text"] * 1000
    sources = (
        Map.source({"x": np.zeros(1000), "text": text}),
        Map.source(pa.table({"text": text})),
        Map.source(pd.DataFrame({"text": text})),
        Map.source(pl.DataFrame({"text": text})),
    )
    for source in sources:
        buffers: list[pickle.PickleBuffer] = []
        stream = pickle.dumps(source, protocol=5, buffer_callback=buffers.append)
        assert len(stream) < 2000
        assert sum(buffer.raw().nbytes for buffer in buffers) >= 9000


def test_the_loader_takes_columns():
    loader = grain.load({"x": X, "label": LABEL}, num_epochs=1, batch_size=4)
    assert same(list(loader), [{"x": X, "label": LABEL}])


def test_specs_and_fingerprints_are_known_without_reading():
    ds = Map.source({"x": X, "label": LABEL})
    spec = grain.experimental.get_element_spec(ds.batch(2, drop_remainder=True))
    assert (spec["x"].shape, spec["label"].dtype) == ((2, 3), np.int16)
    text = "source: ColumnarDataSource({'x': float32[4, 3], 'label': int16[4]}), 4 records"
    assert [str(line) for line in ds.fingerprint()] == [text]


def test_sequences_are_read_by_index_as_before():
    images = (np.zeros((2, 2)), np.ones((2, 2)))
    for source in (images, list(images), [X, LABEL], {0: "a", 1: "b"}, {}, STRUCTURED, ("a", "b")):
        ds = Map.source(source)
        assert len(ds) == len(source)
        assert all(ds[i] is source[i] or np.array_equal(ds[i], source[i]) for i in range(len(ds)))
    assert Map.source(pd.Series([5, 6]))[1] == 6


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ((X, LABEL), r"tuple of 2 arrays .* \(4, 3\), \(4,\): columns, or 2 records\?.*Columnar"),
        ((LABEL, LABEL * 1.0), "columns, or 2 records"),
        ({"x": X, "label": LABEL[:3]}, r"same length.*\['x'\] has 4, \['label'\] has 3"),
        ({"x": X, "more": {"y": LABEL[:3]}}, r"\['x'\] has 4, \['more'\] has 3"),
        ({"x": X, "name": "mnist"}, r"Column \['name'\] is 'mnist' of type str; a column is an"),
        ({"x": X, "more": {"rate": 0.1}}, r"\['more'\]\['rate'\] is 0.1 of type float"),
        ({"x": np.float32(3)}, r"\['x'\] is of type float32"),
        ({"x": np.ma.array([1, 2], mask=[0, 1])}, "masked"),
        ({"x": {}}, "at least one column"),
        ({"train": Map.range(3)}, "of type RangeMapDataset"),
        (pd.DataFrame([[1, 2]], columns=["a", "a"]), "unique, got 'a'"),
        (pd.DataFrame(), "at least one column"),
        (pd.Series([1, 2], index=[1, 0]), "to_numpy"),
        (pl.LazyFrame({"a": [1]}), "no `__len__`"),
    ],
    ids=range(14),
)
def test_what_is_not_clear_is_an_error_that_says_what_to_write(source, message):
    with pytest.raises((TypeError, ValueError), match=message):
        Map.source(source)


def test_one_array_is_not_columns_and_indices_are_checked():
    with pytest.raises(TypeError, match=r"`MapDataset.source\(array\)`"):
        ColumnarDataSource(X)
    source = ColumnarDataSource({"x": X})
    for read in (source.__getitem__, lambda i: source.__getitems__([0, i])):
        with pytest.raises(IndexError, match="Index 4 is out of range for 4 rows"):
            read(4)
        with pytest.raises(TypeError):
            read("x")


def test_no_library_of_data_frames_is_imported():
    program = (
        "import sys, numpy, grain\n"
        "print(grain.MapDataset.source({'x': numpy.arange(3)})[2])\n"
        "assert not {'pandas', 'polars', 'pyarrow'} & set(sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout == "{'x': np.int64(2)}\n", done.stderr


@given(
    length=st.integers(1, 20),
    batch_size=st.integers(1, 7),
    indices=st.lists(st.integers(0, 20), min_size=1, max_size=6),
    large=st.booleans(),
)
@settings(deadline=None, max_examples=60)
def test_batches_read_together_equal_single_ones_in_memory_of_their_own(
    length, batch_size, indices, large
):
    width = 20_000 if large else 2
    column = np.arange(length)[:, None] + np.zeros(width)
    for data in (column, {"a": column, "b": ["x"] * length}):
        ds = Map.source(data).batch(batch_size)
        found = ds.__getitems__(indices)
        assert same(found, [ds[i] for i in indices])
        for batch in found:  # No batch shares the memory of another, nor of the source.
            array = batch if isinstance(batch, np.ndarray) else batch["a"]
            array[...] = -1
        assert (column[:, 0] == np.arange(length)).all()
        assert same(ds.__getitems__(indices), [ds[i] for i in indices])


def test_columns_are_split_without_a_warning_of_jax():
    pytest.importorskip("jax")
    ds = Map.source({"a": np.arange(6), "b": (np.arange(6), np.arange(6))}).batch(2)
    assert same(ds.__getitems__([0, 1, 2]), [ds[i] for i in range(3)])
