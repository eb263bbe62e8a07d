"""Rows and types of written elements are read back, whichever element first has a value."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from parquet_data import zoo

from grain_parquet import ParquetDataSource, ParquetFileError
from grain_parquet.writer import write_elements


def round_trip(path: Path, elements, **options) -> list:
    """Write elements and return the rows of a source."""
    assert write_elements(path, iter(elements), **options) == len(elements)
    with ParquetDataSource(path) as source:
        return list(source)


def test_rows_of_every_type_are_read_back_with_their_types(tmp_path) -> None:
    first = tmp_path / "first.parquet"
    table = zoo(12)
    pq.write_table(table.drop_columns([c for c in table.column_names if c == "map"]), first)
    rows = list(ParquetDataSource(first))
    # Arrow does not infer the types of maps, which are lists of pairs.
    assert repr(round_trip(tmp_path / "second.parquet", rows)) == repr(rows)


def test_arrays_become_lists_of_their_type_nested_ones_too(tmp_path) -> None:
    rows = [
        {
            "vector": np.arange(i, dtype=np.float32),
            "image": np.full((2, i, 3), i, np.uint8),
            "words": np.array(["a", "bcd"]),
            "scalar": np.array(i, np.int16),
        }
        for i in range(3)
    ]
    rows.append({"vector": None, "image": None, "words": None, "scalar": None})
    read = round_trip(tmp_path / "a.parquet", rows)
    schema = pq.read_schema(tmp_path / "a.parquet")
    assert schema.field("vector").type.value_type == pa.float32()
    assert str(schema.field("image").type).count("list<") == 3
    assert str(schema.field("image").type).count("uint8") == 1
    assert schema.field("scalar").type == pa.int16()
    for row, given_row in zip(read[:3], rows, strict=False):
        assert row["vector"].dtype == np.float32
        assert row["vector"].tolist() == given_row["vector"].tolist()
        assert row["image"] == given_row["image"].tolist()
        assert row["words"] == ["a", "bcd"]
    assert read[3] == dict.fromkeys(rows[0])


def test_columns_that_appear_late_or_widen_are_in_all_rows(tmp_path) -> None:
    rows = [
        {"a": 1, "b": None},
        {"a": 2, "b": None},
        {"a": 3, "b": "text"},
        {"a": 4.5, "b": None, "c": [1]},
        {"b": "last", "c": [2.5]},
    ]
    read = round_trip(tmp_path / "a.parquet", rows, row_group_size=1)
    assert [row["a"] for row in read] == [1, 2, 3, 4.5, None]
    assert [row["b"] for row in read] == [None, None, "text", None, "last"]
    assert [None if row["c"] is None else list(row["c"]) for row in read] == [
        None,
        None,
        None,
        [1],
        [2.5],
    ]
    assert os.listdir(tmp_path) == ["a.parquet"]
    assert pq.read_metadata(tmp_path / "a.parquet").num_row_groups == 5


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=30)
@given(
    rows=st.lists(
        st.fixed_dictionaries(
            {"key": st.integers(-(2**63), 2**63 - 1)},
            optional={
                "text": st.text(),
                "flag": st.booleans() | st.none(),
                "bytes": st.binary(),
                "number": st.floats(allow_nan=False) | st.integers(-(2**31), 2**31),
            },
        ),
        max_size=12,
    ),
    size=st.integers(1, 5),
)
def test_missing_keys_are_nulls_and_other_values_are_unchanged(tmp_path, rows, size) -> None:
    names = list(dict.fromkeys(name for row in rows for name in row))
    read = round_trip(tmp_path / "a.parquet", rows, row_group_size=size) if rows else []
    assert read == [{name: row.get(name) for name in names} for row in rows]


def test_row_groups_have_the_requested_size_and_fewer_large_rows(tmp_path, monkeypatch) -> None:
    path = tmp_path / "a.parquet"
    write_elements(path, ({"a": i} for i in range(10)), row_group_size=4, compression="none")
    metadata = pq.read_metadata(path)
    assert [metadata.row_group(i).num_rows for i in range(3)] == [4, 4, 2]
    assert metadata.row_group(0).column(0).compression == "UNCOMPRESSED"
    monkeypatch.setattr("grain_parquet.writer._GROUP_BYTES", 1000)
    write_elements(path, ({"a": b"x" * 600} for _ in range(6)))
    assert pq.read_metadata(path).num_row_groups == 3


def test_damage_of_a_written_file_is_detected(tmp_path) -> None:
    path = tmp_path / "a.parquet"
    write_elements(path, ({"a": i} for i in range(1000)), compression="none")
    with path.open("r+b") as file:
        file.seek(500)  # inside of the first page
        file.write(b"\xff")
    with pytest.raises(ParquetFileError, match="checksum"):
        list(ParquetDataSource(path))


def test_elements_that_are_no_dicts_are_one_column(tmp_path) -> None:
    assert round_trip(tmp_path / "a.parquet", [b"one", b"two"]) == [
        {"value": b"one"},
        {"value": b"two"},
    ]


def test_no_elements_are_a_file_without_rows(tmp_path) -> None:
    assert write_elements(tmp_path / "a.parquet", []) == 0
    assert pq.read_metadata(tmp_path / "a.parquet").num_rows == 0
    with ParquetDataSource(tmp_path / "a.parquet") as source:
        assert (len(source), source.columns, list(source)) == (0, [], [])


def test_a_file_written_from_no_elements_is_compatible_with_any_other(tmp_path) -> None:
    write_elements(tmp_path / "a.parquet", [])
    write_elements(tmp_path / "b.parquet", [{"x": 1}, {"x": 2}])
    for columns in (None, ["x"]):
        source = ParquetDataSource(str(tmp_path / "*.parquet"), columns)
        assert [row["x"] for row in source] == [1, 2]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (
            [{"a": 1}, {"a": "text"}],
            "Elements 1 to 1 do not have the types of the elements before them",
        ),
        (
            [{"a": 2**60}, {"a": 0.5}],
            "Elements 1 to 1 do not have the types of the elements before them",
        ),
        ([{"a": object()}], "Column 'a' of elements 0 to 0 cannot be written as Parquet"),
        ([{"a": 2**70}], "Column 'a' of elements 0 to 0 cannot be written as Parquet"),
        ([{"a": np.zeros(2, complex)}], "Column 'a' of elements 0 to 0 cannot be written"),
    ],
    ids=["text after number", "fraction after large number", "object", "too large", "complex"],
)
def test_values_without_a_parquet_type_are_named(tmp_path, rows, message) -> None:
    with pytest.raises(ValueError, match=message):
        write_elements(tmp_path / "a.parquet", rows, row_group_size=1)
    assert os.listdir(tmp_path) == []


def test_a_failed_write_keeps_the_existing_file(tmp_path) -> None:
    path = tmp_path / "a.parquet"
    path.write_bytes(b"mine")
    for last in ({"a": object()}, {"a": "text"}):
        with pytest.raises(ValueError, match=r"do not have the types|cannot be written"):
            write_elements(path, [{"a": 1}, {"a": 2.5}, last], row_group_size=1)
        assert os.listdir(tmp_path) == ["a.parquet"]
        assert path.read_bytes() == b"mine"


def test_values_of_several_types_in_one_group_are_named(tmp_path) -> None:
    with pytest.raises(ValueError, match="Column 'a' of elements 0 to 1"):
        write_elements(tmp_path / "a.parquet", [{"a": np.zeros(2)}, {"a": 3}])
    with pytest.raises(TypeError, match=r"Element 1 has the keys \[3\]"):
        write_elements(tmp_path / "a.parquet", [{"a": 1}, {3: 1}])
    with pytest.raises(ValueError, match="row_group_size must be at least 1"):
        write_elements(tmp_path / "a.parquet", [], row_group_size=0)
