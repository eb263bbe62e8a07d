"""Missing, damaged and changed files, and wrong arguments."""

from __future__ import annotations

import os
import pickle

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from grain_parquet import ParquetDataSource, ParquetFileError, ParquetIterDataset


@pytest.fixture
def path(tmp_path) -> str:
    path = str(tmp_path / "a.parquet")
    pq.write_table(pa.table({"x": np.arange(10)}), path, row_group_size=4, compression="none")
    return path


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"nope\.parquet"):
        ParquetDataSource(tmp_path / "nope.parquet")
    with pytest.raises(FileNotFoundError, match=r"nope-\*"):
        ParquetDataSource(str(tmp_path / "nope-*.parquet"))


def test_a_directory_is_named(tmp_path):
    with pytest.raises(OSError, match=r"directory"):
        ParquetDataSource(tmp_path)


@pytest.mark.parametrize("content", [b"", b"junk", b"junk" * 1000, b"PAR1" * 100], ids=len)
def test_a_file_of_another_format_is_named(tmp_path, content):
    (tmp_path / "junk.parquet").write_bytes(content)
    with pytest.raises(ParquetFileError, match=r"junk\.parquet.*write it again"):
        ParquetDataSource(tmp_path / "junk.parquet")
    with pytest.raises(pa.ArrowInvalid):
        ParquetDataSource(tmp_path / "junk.parquet")


def test_a_truncated_file_is_named(path):
    with open(path, "r+b") as file:
        file.truncate(200)
    with pytest.raises(ParquetFileError, match=r"a\.parquet.*truncated"):
        ParquetDataSource(path)


def test_damaged_row_groups_are_reported_with_file_and_number(path):
    with open(path, "r+b") as file:
        file.seek(4)
        file.write(b"\xff" * 30)
    for source in (ParquetDataSource(path), ParquetDataSource(path, cache_bytes=0)):
        for indices in ([0], [0, 1, 9]):
            with pytest.raises(ParquetFileError, match=r"row group 0 of .*a\.parquet"):
                source.__getitems__(indices)
    assert source[9]["x"] == 9


def test_a_file_that_changed_after_pickling_is_refused(path):
    data = pickle.dumps(ParquetDataSource(path))
    pq.write_table(pa.table({"x": np.arange(11)}), path, row_group_size=4)
    with pytest.raises(
        ParquetFileError, match=r"a\.parquet has changed.*11 rows.*Create the source"
    ):
        pickle.loads(data)[0]


def test_a_file_that_was_removed_after_pickling_is_named(path, tmp_path):
    data = pickle.dumps(ParquetDataSource(path))
    (tmp_path / "a.parquet").unlink()
    with pytest.raises(FileNotFoundError, match=r"a\.parquet"):
        pickle.loads(data)[0]


def test_files_must_agree_in_the_columns_read(path, tmp_path):
    other = str(tmp_path / "b.parquet")
    pq.write_table(pa.table({"x": np.arange(3, dtype=np.int8), "y": [1, 2, 3]}), other)
    with pytest.raises(ValueError, match=r"'x' is of type int8 in .*b\.parquet.*int64 in .*a\."):
        ParquetDataSource([path, other])
    with pytest.raises(ValueError, match=r"a\.parquet has no column 'y'; it has \['x'\]"):
        ParquetDataSource([other, path], columns=["y"])
    with pytest.raises(ValueError, match="'x' is given twice"):
        ParquetDataSource(path, columns=["x", "x"])


def test_arguments_of_another_kind_are_refused(path):
    for paths in (5, None, [5], b"x"):
        with pytest.raises(TypeError):
            ParquetDataSource(paths)
    with pytest.raises(ValueError, match="at least one Parquet file"):
        ParquetDataSource([])
    for columns in ("x", []):
        with pytest.raises(ValueError, match="columns must be a sequence"):
            ParquetDataSource(path, columns=columns)
    with pytest.raises(ValueError, match="cache_bytes"):
        ParquetDataSource(path, cache_bytes=-1)


def test_files_of_nulls_only_and_of_other_encodings_are_compatible(tmp_path):
    tables = {
        "a": pa.table({"t": pa.nulls(2)}),
        "b": pa.table({"t": ["x", None]}),
        "c": pa.table({"t": pa.array(["y", "z"], pa.large_string())}),
        "d": pa.table({"t": pa.array(["y", "z"]).dictionary_encode()}),
    }
    for name, table in tables.items():
        pq.write_table(table, tmp_path / f"{name}.parquet")
    source = ParquetDataSource(str(tmp_path / "*.parquet"))
    expected = [None, None, "x", None, "y", "z", "y", "z"]
    assert [row["t"] for row in source.__getitems__(range(8))] == expected
    assert source.__getcolumns__([2, 4, 7])["t"].tolist() == ["x", "y", "z"]
    assert source.__getcolumns__([0, 4]) is None


def test_a_file_replaced_by_another_of_the_same_size_is_refused(path):
    source = ParquetDataSource(path)
    text, size = repr(source), os.path.getsize(path)
    data = pickle.dumps(source)
    pq.write_table(pa.table({"x": np.arange(10) + 7}), path, row_group_size=4, compression="none")
    assert os.path.getsize(path) == size
    with pytest.raises(ParquetFileError, match=r"a\.parquet has changed.*with other contents"):
        pickle.loads(data)[0]
    assert repr(ParquetDataSource(path)) != text


def test_a_file_without_permission_is_not_reported_as_damaged(path, monkeypatch):
    def refuse(*arguments, **options):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(pq, "ParquetFile", refuse)
    for open_it in (ParquetDataSource, lambda path: list(ParquetIterDataset(path))):
        with pytest.raises(PermissionError, match=r"permissions.*a\.parquet"):
            open_it(path)


@pytest.mark.parametrize("bytes_", ["1GB", None, -1, float("nan")], ids=str)
def test_a_cache_of_no_size_is_refused(path, bytes_):
    with pytest.raises(ValueError, match="cache_bytes must be a number of bytes"):
        ParquetDataSource(path, cache_bytes=bytes_)


def test_an_index_beyond_64_bits_is_reported_as_given(path):
    with pytest.raises(IndexError, match=str(2**63 + 5)):
        ParquetDataSource(path).__getitems__(np.array([1, 2**63 + 5], np.uint64))


def test_two_columns_of_one_name_are_refused(tmp_path):
    table = pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["a", "a"])
    pq.write_table(table, tmp_path / "t.parquet")
    for open_it in (ParquetDataSource, lambda path: list(ParquetIterDataset(path))):
        with pytest.raises(ValueError, match="'a'"):
            open_it(tmp_path / "t.parquet")


READS = {
    "source": lambda path: list(ParquetDataSource(path)),
    "source batch": lambda path: ParquetDataSource(path).__getitems__(range(20)),
    "source columns": lambda path: ParquetDataSource(path).__getcolumns__(range(20)),
    "iter": lambda path: list(ParquetIterDataset(path)),
    "iter batch": lambda path: list(ParquetIterDataset(path).batch(4)),
}


@pytest.mark.parametrize("read", READS.values(), ids=list(READS))
def test_damage_inside_of_a_page_is_found_where_the_file_has_checksums(tmp_path, read):
    path = str(tmp_path / "a.parquet")
    pq.write_table(
        pa.table({"x": np.arange(1000)}), path, write_page_checksum=True, compression="none",
        use_dictionary=False,
    )  # fmt: skip
    read(path)
    with open(path, "r+b") as file:
        file.seek(500)
        file.write(b"\x55")
    with pytest.raises(ParquetFileError, match=r"row group 0 of .*a\.parquet.*checksum"):
        read(path)


@pytest.mark.parametrize("name", [b"number", b"field"])
@pytest.mark.parametrize("read", READS.values(), ids=list(READS))
def test_a_damaged_name_of_a_column_is_found_though_footers_have_no_checksum(tmp_path, read, name):
    path = tmp_path / "a.parquet"
    table = pa.table({"number": np.arange(40), "nested": [{"field": 1.0}] * 40})
    pq.write_table(table, path, store_schema=False)
    read(str(path))
    path.write_bytes(path.read_bytes().replace(name, name.swapcase(), 1))
    with pytest.raises(
        ParquetFileError, match=rf"a\.parquet.*{name.decode().upper()}.*first row group"
    ):
        read(str(path))


@pytest.mark.parametrize(
    ("read", "nested"),
    # Lists of text do not stack.
    [
        (name, nested)
        for name in READS
        for nested in (False, True)
        if name != "source columns" or not nested
    ],
)
def test_text_that_is_not_utf_8_is_reported_with_file_and_column(tmp_path, read, nested):
    path = str(tmp_path / "a.parquet")
    column = pa.array([b"fine"] * 19 + [b"not \xff fine"]).view(pa.string())
    if nested:
        column = pa.ListArray.from_arrays(np.arange(21, dtype=np.int32), column)
    pq.write_table(pa.table({"t": column}), path, use_dictionary=False)
    with pytest.raises(ParquetFileError, match=r"column 't' of .*a\.parquet.*valid UTF-8"):
        READS[read](path)
