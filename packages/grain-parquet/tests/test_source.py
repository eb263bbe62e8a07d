"""Rows by index: values, order, row groups, many files, processes, threads."""

from __future__ import annotations

import datetime as dt
import decimal
import gc
import multiprocessing
import os
import pathlib
import pickle
import subprocess
import sys

import fsspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from parquet_data import web_server, zoo
from tests.descriptors import open_files
from tests.equality import all_same, same
from tests.threads import run_in_threads

from grain_parquet import ParquetDataSource, ParquetIterDataset

SIZES = (23, 0, 1, 40)


def table(shard: int, size: int) -> pa.Table:
    ids = np.arange(size) + 1000 * shard
    return pa.table(
        {
            "id": ids,
            "text": [f"row {i}" for i in ids],
            "tokens": [np.arange(i % 5, dtype=np.int32) for i in ids],
            "pixels": pa.array([[i % 7] * 3 for i in ids.tolist()], pa.list_(pa.uint8(), 3)),
            "maybe": pa.array([None if i % 4 == 0 else i for i in ids.tolist()], pa.int16()),
        }
    )


@pytest.fixture(scope="module")
def directory(tmp_path_factory) -> pathlib.Path:
    directory = tmp_path_factory.mktemp("tables")
    for shard, size in enumerate(SIZES):
        pq.write_table(
            table(shard, size), directory / f"part-{shard}.parquet", row_group_size=3 + shard
        )
    return directory


@pytest.fixture(scope="module")
def files(directory) -> list[str]:
    return sorted(str(path) for path in directory.iterdir())


@pytest.fixture(scope="module")
def ids() -> list[int]:
    return [1000 * shard + i for shard, size in enumerate(SIZES) for i in range(size)]


@pytest.fixture(scope="module", params=[2**30, 2000], ids=["joined", "row groups"])
def source(files, request) -> ParquetDataSource:
    return ParquetDataSource(files, cache_bytes=request.param)


def test_rows_of_all_files_follow_one_another(source, ids):
    assert len(source) == sum(SIZES)
    assert [source[i]["id"] for i in range(len(source))] == ids
    assert [row["text"] for row in source] == [f"row {i}" for i in ids]


def test_a_path_a_path_object_a_pattern_and_a_list_all_work(directory, files, ids):
    assert ParquetDataSource(files[0])[4]["id"] == 4
    assert ParquetDataSource(pathlib.Path(files[0]))[4]["id"] == 4
    pattern = str(directory / "part-*.parquet")
    for paths in (
        pattern,
        [pattern],
        tuple(files),
        [files[0], str(directory / "part-[1-9].parquet")],
    ):
        found = ParquetDataSource(paths)
        assert found.paths == files
        assert [row["id"] for row in found.__getitems__(range(len(found)))] == ids


def test_row_groups_are_joined_if_all_fit_into_the_cache(files, ids, group_reads):
    for cache_bytes, reads in ((2**30, [8, 1, 7]), (1000, [1] * (8 + 1 + 7))):
        source = ParquetDataSource(files, cache_bytes=cache_bytes)
        source[0]
        source.close()
        group_reads.clear()
        assert [row["id"] for row in source.__getitems__(range(len(ids)))] == ids
        assert [len(groups) for groups in group_reads] == reads


@given(data=st.data())
@settings(deadline=None)
def test_a_batched_read_equals_single_reads_in_the_requested_order(data, source):
    indices = data.draw(st.lists(st.integers(0, len(source) - 1), max_size=60))
    rows = [source[i] for i in indices]
    for requested in (indices, np.array(indices, np.int64)):
        assert all_same(rows, source.__getitems__(requested))


@given(data=st.data())
@settings(deadline=None)
def test_columns_equal_stacked_rows_or_are_none(data, files):
    source = ParquetDataSource(files, columns=["pixels", "id", "text", "maybe"])
    indices = data.draw(st.lists(st.integers(0, len(source) - 1), min_size=1, max_size=40))
    columns = source.__getcolumns__(np.array(indices))
    rows = [source[i] for i in indices]
    if any(row["maybe"] is None for row in rows):
        assert columns is None
    else:
        assert same({name: np.stack([row[name] for row in rows]) for name in rows[0]}, columns)


def test_lists_stack_exactly_when_they_have_one_length(files):
    source = ParquetDataSource(files, columns=["tokens"])
    assert same(np.array([[0, 1], [0, 1]], np.int32), source.__getcolumns__([2, 7])["tokens"])
    assert same(np.zeros((2, 0), np.int32), source.__getcolumns__([0, 5])["tokens"])
    assert source.__getcolumns__([2, 3]) is None
    assert source.__getcolumns__([2, 30]) is None
    assert source.__getcolumns__([]) is None


def test_every_type_is_read_back(tmp_path):
    path = tmp_path / "zoo.parquet"
    pq.write_table(zoo(7), path, row_group_size=4)
    source = ParquetDataSource(path)
    row = {
        "int64": np.int64(5),
        "int32": np.int32(5),
        "uint8": np.uint8(5),
        "float32": np.linspace(0, 1, 7).astype(np.float32)[5],
        "float16": np.float16(5),
        "bool": np.False_,
        "text": "text 5",
        "bytes": b"\x005",
        "timestamp": np.datetime64("2020-01-06", "us"),
        "zoned": np.datetime64("2020-01-06", "ms"),
        "date": np.datetime64("2020-01-06", "D"),
        "duration": np.timedelta64(5_000_000, "us"),
        "time": dt.time(5),
        "decimal": decimal.Decimal("5.50"),
        "category": "c1",
        "struct": {"a": 5, "b": {"c": "5"}},
        "ragged": np.arange(0),
        "pair": np.array([5, 6]),
        "fixed": np.array([5, -5], np.int32),
        "nested": [[1], [5]],
        "structs": [{"q": 5}],
        "map": [("k", 5)],
        "int64_null": np.int64(5),
        "big_null": np.int64(2**62 + 5),
        "float_null": np.float64(2.5),
        "bool_null": np.True_,
        "text_null": "5",
        "date_null": np.datetime64("2020-01-01", "D"),
        "ragged_null": np.array([5, 5]),
        "hole_inside": [5, None],
        "fixed_null": np.array([5, 5], np.float32),
        "fixed_hole": [5, None],
        "struct_null": {"a": 5},
        "nothing": None,
    }
    with_nulls = source[4]
    assert list(source[0]) == zoo(7).column_names
    for name in source.columns:
        value = row[name]
        assert same(value, source[5][name]), (name, source[5][name])
        assert same(value, source.__getitems__([4, 5, 6])[1][name]), name
        if name.endswith("_null"):
            assert with_nulls[name] is None
            assert source.__getitems__([5, 4])[1][name] is None
        elif name != "nothing":
            assert with_nulls[name] is not None


@pytest.mark.parametrize("name", zoo(3).column_names)
def test_a_column_of_any_type_stacks_like_its_rows_or_not_at_all(tmp_path, name):
    path = tmp_path / "zoo.parquet"
    pq.write_table(zoo(30).select([name]), path, row_group_size=8)
    source = ParquetDataSource(path)
    for indices in ([0, 12, 29, 3, 3], [1, 4], [2], list(range(30))):
        columns = source.__getcolumns__(indices)
        if columns is not None:
            stacked = np.stack([row[name] for row in source.__getitems__(indices)])
            assert stacked.dtype != object
            assert same(stacked, columns[name])


def test_columns_are_chosen_and_ordered_by_name(files):
    source = ParquetDataSource(files, columns=["text", "id"])
    assert source.columns == ["text", "id"]
    assert list(source[0]) == list(source.__getitems__([0, 1])[0]) == ["text", "id"]


def test_rows_are_copies_that_may_be_changed(files):
    source = ParquetDataSource(files)
    for row in (source[4], *source.__getitems__([4, 4])):
        row["tokens"][...] = 99
        row["pixels"][...] = 99
    source.__getcolumns__([1, 2, 3])
    assert same(np.arange(4, dtype=np.int32), source[4]["tokens"])
    assert same(np.full(3, 4, np.uint8), source[4]["pixels"])


def test_extension_types_are_read_as_their_storage_type(tmp_path):
    tensors = np.arange(12, dtype=np.float32).reshape(3, 2, 2)
    column = pa.FixedShapeTensorArray.from_numpy_ndarray(tensors)
    pq.write_table(pa.table({"t": column}), tmp_path / "t.parquet")
    source = ParquetDataSource(tmp_path / "t.parquet")
    assert same(tensors[1].ravel(), source[1]["t"])


def test_indices_are_whole_numbers_inside_of_the_source(source):
    assert source[np.int64(3)]["id"] == source[np.uint8(3)]["id"] == 3
    assert source.__getitems__([]) == []
    for outside in (-1, len(source), 10**20):
        with pytest.raises(IndexError, match="outside of a source of 64 rows"):
            source[outside]
        with pytest.raises((IndexError, TypeError)):
            source.__getitems__([0, outside])
        with pytest.raises((IndexError, TypeError)):
            source.__getitems__([outside])
    for wrong in ("a", 1.0, slice(0, 1), None):
        with pytest.raises(TypeError):
            source[wrong]
    with pytest.raises(TypeError, match="integers"):
        source.__getitems__([0.5, 1.0])
    with pytest.raises(TypeError, match="flat"):
        source.__getitems__([[0, 1], [1, 2]])


def test_a_file_without_rows_is_an_empty_source(tmp_path):
    pq.write_table(table(0, 0), tmp_path / "empty.parquet")
    source = ParquetDataSource(tmp_path / "empty.parquet")
    assert len(source) == 0
    assert list(source) == []
    with pytest.raises(IndexError):
        source[0]


# Processes and threads


def test_files_are_opened_when_read_and_released_by_close(files):
    gc.collect()
    before = len(open_files(".parquet"))
    source = ParquetDataSource(files)
    assert len(open_files(".parquet")) == before
    assert source[0]
    assert len(open_files(".parquet")) == before + 1
    source.close()
    assert len(open_files(".parquet")) == before
    with source:
        assert source[0]
    assert len(open_files(".parquet")) == before


def test_the_repr_is_the_same_in_every_process_and_identifies_contents(files, tmp_path):
    source = ParquetDataSource(files, columns=["id"])
    script = (
        "import sys; from grain_parquet import ParquetDataSource;"
        "print(repr(ParquetDataSource(sys.argv[1:], columns=['id'])))"
    )
    other = subprocess.run(
        [sys.executable, "-c", script, *files], capture_output=True, text=True, check=True
    )
    assert other.stdout.strip() == repr(source)
    assert repr(pickle.loads(pickle.dumps(source))) == repr(source)
    assert repr(ParquetDataSource(files)) != repr(source)
    assert repr(ParquetDataSource(files[::-1], columns=["id"])) != repr(source)
    moved = tmp_path / "part-0.parquet"
    moved.write_bytes(pathlib.Path(files[0]).read_bytes())
    assert repr(ParquetDataSource(moved)) == repr(ParquetDataSource(files[0]))
    pq.write_table(table(0, SIZES[0]), moved, row_group_size=4)
    assert repr(ParquetDataSource(moved)) != repr(ParquetDataSource(files[0]))


def test_a_used_source_pickles_small_and_its_copy_reads(source):
    assert source.__getitems__(range(10))
    data = pickle.dumps(source)
    assert len(data) < 10_000
    copy = pickle.loads(data)
    assert len(copy) == len(source)
    assert same(source[40], copy[40])


def test_a_source_of_many_columns_and_files_pickles_small(tmp_path):
    wide = pa.table({f"column {number}": [1.0] for number in range(300)})
    for number in range(10):
        pq.write_table(wide, tmp_path / f"{number}.parquet")
    source = ParquetDataSource(str(tmp_path / "*.parquet"))
    assert len(pickle.dumps(source)) < 20_000


def _ids(source, indices, queue):
    queue.put([int(row["id"]) for row in source.__getitems__(indices)])


@pytest.mark.parametrize("method", ["fork", "spawn"])
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_used_source_works_in_a_child_process(method, files, ids):
    source = ParquetDataSource(files)
    indices = [60, 3, 11, 3]
    assert len(source.__getitems__(indices)) == 4
    context = multiprocessing.get_context(method)
    queue = context.Queue()
    child = context.Process(target=_ids, args=(source, indices, queue))
    child.start()
    assert queue.get(timeout=60) == [ids[i] for i in indices]
    child.join(60)
    assert child.exitcode == 0


@pytest.mark.parametrize("cache_bytes", [0, 2000, 2**30])
def test_many_threads_read_one_source(files, ids, cache_bytes):
    source = ParquetDataSource(files, cache_bytes=cache_bytes)

    def read(seed: int) -> None:
        for indices in np.random.default_rng(seed).integers(0, len(ids), (30, 11)):
            assert [row["id"] for row in source.__getitems__(indices)] == [ids[i] for i in indices]
            assert source[indices[0]]["id"] == ids[indices[0]]
            if seed == 0:
                source.close()

    run_in_threads(read, 6)


@pytest.mark.parametrize("kind", ["string_view", "binary_view"])
def test_views_are_read_one_by_one_and_many_at_a_time(tmp_path, kind):
    if not hasattr(pa, kind):
        pytest.skip("this version of arrow has no such type")
    texts = [None if i % 5 == 4 else f"text {i} " * (i % 3) for i in range(40)]
    column = pa.array([t and t.encode() for t in texts] if kind == "binary_view" else texts)
    table = pa.table({"t": column.cast(getattr(pa, kind)())})
    pq.write_table(table, tmp_path / "t.parquet", row_group_size=16)
    source = ParquetDataSource(tmp_path / "t.parquet")
    expected = column.to_pylist()
    assert [source[i]["t"] for i in range(40)] == expected
    assert [row["t"] for row in source.__getitems__(range(40))] == expected
    assert [row["t"] for row in ParquetIterDataset(tmp_path / "t.parquet")] == expected


@pytest.mark.skipif(not hasattr(pa, "string_view"), reason="this version of arrow has no views")
def test_views_inside_of_lists_and_structs_are_read_in_batches_of_any_size(tmp_path):
    text, data = pa.string_view(), pa.binary_view()
    values = {
        pa.list_(text): lambda i: [f"{i}", None],
        pa.large_list(data): lambda i: [b"%d" % i] * (i % 3),
        pa.list_(text, 2): lambda i: ["a", f"{i}"],
        pa.list_(pa.list_(text)): lambda i: [[f"{i}"], []],
        pa.struct({"a": text, "b": pa.list_(data)}): lambda i: {"a": f"{i}", "b": [b"x"]},
        pa.map_(text, text): lambda i: [("key", f"{i}")],
    }
    table = pa.table(
        {
            str(kind): pa.array([None if i % 7 == 6 else make(i) for i in range(40)], kind)
            for kind, make in values.items()
        }
    )
    pq.write_table(table, tmp_path / "t.parquet")
    source = ParquetDataSource(tmp_path / "t.parquet")
    expected = table.to_pylist()
    for size in (2, 11, 12, 13, 40):
        assert source.__getitems__(range(size)) == expected[:size]
    assert list(source) == expected
    assert [with_lists(row) for row in ParquetIterDataset(tmp_path / "t.parquet")] == expected


def with_lists(value):
    """Return a value with lists in place of arrays."""
    if isinstance(value, dict):
        return {key: with_lists(item) for key, item in value.items()}
    return [with_lists(item) for item in value] if isinstance(value, np.ndarray) else value


def test_a_file_uri_may_be_quoted(tmp_path):
    path = tmp_path / "mein Ordner" / "ä [1].parquet"
    path.parent.mkdir()
    pq.write_table(pa.table({"id": [7]}), path)
    for uri in (path.as_uri(), f"file://{path}"):
        assert ParquetDataSource(uri)[0]["id"] == 7
        assert ParquetDataSource([uri]).paths == [f"file://{path}"]


def test_uris_of_fsspec_are_read(files, ids):
    memory = fsspec.filesystem("memory")
    for file in files:
        memory.put(file, f"/tables/{os.path.basename(file)}")
    try:
        for paths in (
            "memory://tables/part-*.parquet",
            [f"memory://tables/{os.path.basename(file)}" for file in files],
        ):
            source = ParquetDataSource(paths)
            assert [row["id"] for row in source.__getitems__(range(len(ids)))] == ids
        assert repr(source) == repr(ParquetDataSource(files))
        assert source[0]["id"] == 0
        with pytest.raises(FileNotFoundError, match=r"memory://tables/nope\.parquet"):
            ParquetDataSource("memory://tables/nope.parquet")
        with pytest.raises(FileNotFoundError, match="pattern"):
            ParquetDataSource("memory://tables/nope-*.parquet")
    finally:
        memory.rm("/tables", recursive=True)


def test_files_are_read_over_http(directory, files, ids):
    with web_server(str(directory)) as address:
        uris = [f"{address}/{os.path.basename(file)}" for file in files]
        source = ParquetDataSource(uris)
        assert [row["id"] for row in source.__getitems__(range(len(ids)))] == ids
        copy = pickle.loads(pickle.dumps(source))
        assert copy[30]["id"] == ids[30]
        with pytest.raises(FileNotFoundError, match=r"nope\.parquet"):
            ParquetDataSource(f"{address}/nope.parquet")
        source.close()
        copy.close()
