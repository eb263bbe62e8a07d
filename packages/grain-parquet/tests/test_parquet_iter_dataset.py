"""Rows in order: values, states, resuming, batches, many files, closing."""

from __future__ import annotations

import datetime as dt
import decimal
import itertools
import json
import os
import pickle

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

import grain
from grain.dataset.batch import BatchIterDataset
from grain_parquet import ParquetDataSource, ParquetFileError, ParquetIterDataset


def steps(dataset) -> tuple[list, list]:
    """All elements, and the states before the first, after each, and at the end."""
    iterator = iter(dataset)
    states = [iterator.get_state()]
    elements = []
    for element in iterator:
        elements.append(element)
        states.append(iterator.get_state())
    states.append(iterator.get_state())
    return elements, states


@pytest.fixture
def path(tmp_path) -> str:
    path = str(tmp_path / "a.parquet")
    table = pa.table({"id": np.arange(10), "text": [f"row {i}" for i in range(10)]})
    pq.write_table(table, path, row_group_size=4)
    return path


def files_of(tmp_path, sizes, row_group_size=2) -> list[str]:
    paths = []
    for number, size in enumerate(sizes):
        paths.append(str(tmp_path / f"part-{number:03d}.parquet"))
        table = pa.table({"id": np.arange(size) + 100 * number})
        pq.write_table(table, paths[-1], row_group_size=row_group_size)
    return paths


def test_the_state_is_row_group_and_row_and_stays_at_the_end_of_a_group(path):
    elements, states = steps(ParquetIterDataset(path))
    assert [element["id"] for element in elements] == list(range(10))
    assert [(state["row_group"], state["index_within_row_group"]) for state in states] == [
        (0, 0),
        *((0, 1), (0, 2), (0, 3), (0, 4)),
        *((1, 1), (1, 2), (1, 3), (1, 4)),
        *((2, 1), (2, 2), (2, 2)),
    ]


def test_values_have_the_numpy_type_of_their_column(tmp_path):
    pq.write_table(zoo(6), tmp_path / "zoo.parquet", row_group_size=3)
    elements = list(ParquetIterDataset(str(tmp_path / "zoo.parquet")))
    expected = {
        "int64": np.int64(4),
        "int32": np.int32(4),
        "uint8": np.uint8(4),
        "float32": np.linspace(0, 1, 6).astype(np.float32)[4],
        "float16": np.float16(4),
        "bool": np.True_,
        "text": "",
        "bytes": b"\x004",
        "timestamp": np.datetime64("2020-01-05", "us"),
        "zoned": np.datetime64("2020-01-05", "ms"),
        "date": np.datetime64("2020-01-05", "D"),
        "duration": np.timedelta64(4_000_000, "us"),
        "time": dt.time(4),
        "decimal": decimal.Decimal("4.50"),
        "category": "c0",
        "struct": {"a": 4, "b": {"c": "4"}},
        "ragged": np.arange(4),
        "pair": np.array([4, 5]),
        "fixed": np.array([4, -4], np.int32),
        "nested": np.array([np.array([1]), np.array([4]), None], dtype=object)[:2],
        "structs": np.array([{"q": 4}]),
        "map": [("k", 4)],
        "int64_null": None,
        "big_null": None,
        "float_null": np.float64("nan"),
        "bool_null": None,
        "text_null": None,
        "date_null": np.datetime64("NaT", "D"),
        "ragged_null": None,
        "hole_inside": [4, None],
        "fixed_null": None,
        "fixed_hole": [4, None],
        "struct_null": None,
        "nothing": None,
    }
    for name, value in elements[4].items():
        assert same(expected[name], value), (name, value)
    assert same(np.int64(5), elements[5]["int64_null"])
    assert same(np.int64(2**62 + 5), elements[5]["big_null"])


@pytest.mark.parametrize("row_group_size", [1, 2, 10])
@pytest.mark.parametrize("kind", [pa.int8(), pa.uint32(), pa.int64(), pa.uint64()], ids=str)
def test_integers_with_nulls_stay_integers_in_every_row_group(tmp_path, kind, row_group_size):
    dtype = kind.to_pandas_dtype()
    largest = int(np.iinfo(dtype).max)
    values = [None, largest, largest - 1, None, 0]
    table = pa.table({"x": pa.array(values, kind), "list": pa.array([values] * 5, pa.list_(kind))})
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=row_group_size)
    dataset = ParquetIterDataset(tmp_path / "a.parquet")
    expected = [None if value is None else dtype(value) for value in values]
    assert all_same([row["x"] for row in dataset], expected)
    assert [row["list"] for row in dataset] == [values] * 5
    assert [batch["x"].tolist() for batch in dataset.batch(5)] == [values]


@pytest.mark.parametrize("through", [lambda state: state, lambda s: json.loads(json.dumps(s))])
@pytest.mark.parametrize("make", [
    lambda dataset: dataset,
    lambda dataset: dataset.batch(3),
    lambda dataset: dataset.batch(4, drop_remainder=True),
    lambda dataset: dataset.map(lambda row: row["id"] * 2).filter(lambda x: x % 3 == 0).batch(2),
    lambda dataset: dataset.seed(3).random_map(lambda row, rng: row["id"] + rng.random()),
])  # fmt: skip
def test_iterators_resume_at_every_step(path, make, through):
    dataset = make(ParquetIterDataset(path))
    elements, states = steps(dataset)
    for step, state in enumerate(states):
        iterator = iter(dataset)
        for _ in range(2):
            iterator.set_state(through(state))
            assert all_same(list(iterator), elements[step:])
            assert iterator.get_state() == states[-1]


def test_a_state_of_another_file_is_refused(path):
    iterator = iter(ParquetIterDataset(path))
    for group, row in ((3, 0), (-1, 0), (0, 5), (2, 3), (1, -1)):
        with pytest.raises(ParquetFileError, match=r"a\.parquet.*changed since the checkpoint"):
            iterator.set_state({"row_group": group, "index_within_row_group": row})
    for state in ({}, None, 5, {"row_group": 1}):
        with pytest.raises((KeyError, TypeError), match="index_within_row_group"):
            iterator.set_state(state)
    assert next(iterator)["id"] == 0


@pytest.mark.parametrize("name", zoo(3).column_names)
@pytest.mark.parametrize("row_group_size", [4, 11])
def test_batches_of_columns_are_the_batches_of_rows(tmp_path, name, row_group_size):
    path = str(tmp_path / "zoo.parquet")
    pq.write_table(zoo(11).select([name]), path, row_group_size=row_group_size)
    dataset = ParquetIterDataset(path)
    for size, drop in itertools.product((1, 2, 3, 11, 20), (False, True)):
        fast, slow = dataset.batch(size, drop_remainder=drop), BatchIterDataset(dataset, size, drop)
        iterators = iter(fast), iter(slow)
        while True:
            outcomes = [outcome_of(iterator) for iterator in iterators]
            assert same(*(element for element, _ in outcomes))
            assert outcomes[0][1] == outcomes[1][1]
            if outcomes[0][1][0] is StopIteration:
                break


def outcome_of(iterator):
    try:
        element, error = next(iterator), None
    except Exception as raised:
        element, error = None, raised
    return element, (type(error), str(error), iterator.get_state())


@given(
    groups=st.lists(st.integers(0, 7), max_size=6),
    size=st.integers(1, 9),
    drop=st.booleans(),
)
@settings(deadline=None, max_examples=50)
def test_batches_of_columns_resume_like_batches_of_rows(tmp_path_factory, groups, size, drop):
    path = str(tmp_path_factory.mktemp("groups") / "a.parquet")
    schema = pa.schema({"id": pa.int64(), "text": pa.string()})
    with pq.ParquetWriter(path, schema) as writer:
        for number, rows in enumerate(groups):
            ids = np.arange(rows) + 100 * number
            writer.write_table(pa.table({"id": ids, "text": [str(i) for i in ids]}, schema=schema))
    dataset = ParquetIterDataset(path)
    elements, states = steps(dataset.batch(size, drop_remainder=drop))
    expected, expected_states = steps(BatchIterDataset(dataset, size, drop))
    assert all_same(elements, expected)
    assert states == expected_states
    assert len(dataset) == sum(groups)
    assert len(dataset.batch(size, drop_remainder=drop)) == len(elements)
    for step, state in enumerate(states):
        iterator = iter(dataset.batch(size, drop_remainder=drop))
        iterator.set_state(state)
        assert all_same(list(iterator), elements[step:])


def test_batches_do_not_share_memory(path):
    dataset = ParquetIterDataset(path).batch(2)
    first = list(dataset)
    for batch in first:
        batch["id"][...] = -1
    assert [batch["id"].tolist() for batch in dataset] == [[2 * i, 2 * i + 1] for i in range(5)]


def test_a_batch_function_gets_rows(path):
    batches = list(ParquetIterDataset(path).batch(4, batch_fn=list))
    assert [[row["id"] for row in rows] for rows in batches] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]


def test_several_files_are_interleaved(tmp_path):
    paths = files_of(tmp_path, (5, 3, 5))
    elements, states = steps(ParquetIterDataset(paths))
    ids = [0, 100, 200, 1, 101, 201, 2, 102, 202, 3, 203, 4, 204]
    assert [element["id"] for element in elements] == ids
    at = lambda *rows: [  # noqa: E731
        {"row_group": group, "index_within_row_group": row} for group, row in rows
    ]
    common = {"next_index_in_datasets": 3, "iterators_in_use_indices": [0, 1, 2]}
    assert states[0] == common | {
        "next_index_in_cycle": 0,
        "iterators_in_use_states": at((0, 0), (0, 0), (0, 0)),
        "exhausted": [0, 0, 0],
        "future_states": {},
    }
    assert states[11] == common | {
        "next_index_in_cycle": 0,
        "iterators_in_use_states": at((1, 2), (1, 1), (1, 2)),
        "exhausted": [0, 1, 0],
        "future_states": {},
    }


@pytest.mark.parametrize("count", [2, 16, 17, 40])
def test_many_files_resume_at_every_step(tmp_path, count):
    paths = files_of(tmp_path, [number % 4 for number in range(count)])
    dataset = ParquetIterDataset(str(tmp_path / "*.parquet"))
    elements, states = steps(dataset)
    rows = ParquetDataSource(paths).__getitems__(range(len(dataset)))
    assert sorted(e["id"] for e in elements) == sorted(row["id"] for row in rows)
    assert [e["id"] for e in elements[:4]] == [
        100 * number for number in range(count) if number % 4
    ][:4]
    for step in range(0, len(states), max(1, len(states) // 12)):
        iterator = iter(ParquetIterDataset(paths))
        iterator.set_state(json.loads(json.dumps(states[step])))
        assert all_same(list(iterator), elements[step:])
        iterator.close()


def interleave(sizes: list[int], cycle: int, group: int):
    """Yield (file, row) and the state after each row, then None and the state at the end."""
    slots = list(range(min(cycle, len(sizes))))
    taken, over = [0] * len(slots), [0] * len(slots)
    next_file, cursor = len(slots), 0

    def state():
        def at(rows):
            whole, rest = divmod(rows, group)
            whole, rest = (whole, rest) if rest or not rows else (whole - 1, group)
            return {"row_group": whole, "index_within_row_group": rest}

        return {
            "next_index_in_cycle": cursor,
            "next_index_in_datasets": next_file,
            "iterators_in_use_indices": list(slots),
            "iterators_in_use_states": [at(rows) for rows in taken],
            "exhausted": list(over),
            "future_states": {},
        }

    while not all(over) or next_file < len(sizes):
        if over[cursor] and next_file < len(sizes):
            slots[cursor], taken[cursor], over[cursor] = next_file, 0, 0
            next_file += 1
        slot, cursor = cursor, (cursor + 1) % len(slots)
        if not over[slot] and taken[slot] < sizes[slots[slot]]:
            taken[slot] += 1
            yield (slots[slot], taken[slot] - 1), state()
        else:
            over[slot] = 1
    yield None, state()


@given(sizes=st.lists(st.integers(0, 6), min_size=2, max_size=22), ahead=st.integers(1, 40))
@settings(deadline=None, max_examples=40)
def test_interleaved_rows_and_states_follow_the_rule(tmp_path_factory, sizes, ahead):
    paths = files_of(tmp_path_factory.mktemp("interleaved"), sizes, row_group_size=3)
    *expected, (_, end) = interleave(sizes, 16, 3)
    iterator = iter(ParquetIterDataset(paths))
    for (file, row), state in expected:
        assert next(iterator)["id"] == 100 * file + row
        assert iterator.get_state() == state
    assert next(iterator, None) is None
    assert iterator.get_state() == end
    # The same in chunks, as operations read them.
    iterator = iter(ParquetIterDataset(paths))
    numbers, states = [], []
    while (chunk := iterator.next_chunk(ahead)).elements:
        numbers += [int(row["id"]) for row in chunk.elements]
        states += [chunk.state_after(offset) for offset in range(len(chunk.elements))]
    assert numbers == [100 * file + row for (file, row), _ in expected]
    assert states == [state for _, state in expected]


def test_a_damaged_file_among_several_is_reported_when_its_rows_are_read(tmp_path):
    paths = files_of(tmp_path, (4, 4, 4))
    damaged = pq.ParquetFile(paths[1]).metadata.row_group(1).column(0)
    with open(paths[1], "r+b") as file:
        file.seek(damaged.dictionary_page_offset or damaged.data_page_offset)
        file.write(b"\xff" * 20)
    iterator = iter(ParquetIterDataset(paths))
    assert [next(iterator)["id"] for _ in range(7)] == [0, 100, 200, 1, 101, 201, 2]
    with pytest.raises(ParquetFileError, match=r"row group 1 of .*part-001\.parquet"):
        next(iterator)


def test_a_state_of_other_files_is_refused(tmp_path):
    paths = files_of(tmp_path, (2, 2, 2))
    state = iter(ParquetIterDataset(paths)).get_state()
    with pytest.raises(ValueError, match="another set of datasets"):
        iter(ParquetIterDataset(paths[:2])).set_state(state)
    with pytest.raises(KeyError, match="iterators_in_use_indices"):
        iter(ParquetIterDataset(paths)).set_state({"row_group": 0})


def test_closing_closes_all_files(tmp_path):
    paths = files_of(tmp_path, [3] * 20)

    def opened() -> int:
        return sum(path in paths for path in open_files(".parquet"))

    iterator = iter(ParquetIterDataset(paths))
    for _ in range(16):
        next(iterator)
    # One more may be opened ahead.
    assert 16 <= opened() <= 17
    iterator.set_state(iterator.get_state())
    next(iterator)
    assert 0 < opened() <= 17
    iterator.close()
    assert opened() == 0


def test_a_file_without_rows_or_groups_is_empty(tmp_path):
    schema = pa.schema({"id": pa.int64()})
    pq.write_table(schema.empty_table(), tmp_path / "a.parquet")
    pq.ParquetWriter(tmp_path / "b.parquet", schema).close()
    for name in ("a", "b"):
        dataset = ParquetIterDataset(str(tmp_path / f"{name}.parquet"))
        elements, states = steps(dataset)
        assert elements == []
        assert states == [{"row_group": 0, "index_within_row_group": 0}] * 2
        iterator = iter(dataset)
        iterator.set_state(states[0])
        assert list(iterator) == list(dataset.batch(2)) == []
        assert len(dataset) == 0


def test_the_dataset_pickles_and_its_pipelines_too(path):
    dataset = ParquetIterDataset(path, buffer_size=4096)
    for made in (dataset, dataset.batch(3)):
        assert all_same(list(pickle.loads(pickle.dumps(made))), list(made))


def test_options_reach_pyarrow(path):
    assert len(list(ParquetIterDataset(path, pre_buffer=True))) == 10
    with pytest.raises(TypeError, match="bogus"):
        iter(ParquetIterDataset(path, bogus=1))


def test_missing_and_broken_files_are_named(tmp_path, path):
    with pytest.raises(FileNotFoundError, match=r"nope\.parquet"):
        iter(ParquetIterDataset(str(tmp_path / "nope.parquet")))
    with pytest.raises(FileNotFoundError, match="pattern"):
        ParquetIterDataset(str(tmp_path / "nope-*.parquet"))
    with pytest.raises(ValueError, match="at least one"):
        ParquetIterDataset([])
    with pytest.raises(TypeError):
        ParquetIterDataset(5)
    (tmp_path / "junk.parquet").write_bytes(b"junk" * 100)
    with pytest.raises(ParquetFileError, match=r"junk\.parquet.*write it again"):
        iter(ParquetIterDataset(str(tmp_path / "junk.parquet")))


def test_rows_before_a_damaged_row_group_are_read_first(tmp_path):
    path = str(tmp_path / "a.parquet")
    pq.write_table(
        pa.table({"id": np.arange(9)}), path, row_group_size=3, compression="none",
        use_dictionary=False,
    )  # fmt: skip
    second = pq.ParquetFile(path).metadata.row_group(1).column(0)
    with open(path, "r+b") as file:
        file.seek(second.data_page_offset)
        file.write(b"\xff" * 20)
    for dataset, size in ((ParquetIterDataset(path), 1), (ParquetIterDataset(path).batch(3), 3)):
        iterator = iter(dataset)
        for _ in range(3 // size):
            next(iterator)
        start = iter(dataset).get_state()
        with pytest.raises(ParquetFileError, match=r"row group 1 of .*a\.parquet"):
            next(iterator)
        iterator.set_state(start)
        assert np.ravel(next(iterator)["id"])[0] == 0


def test_close_releases_the_file(path):
    for dataset in (ParquetIterDataset(path), ParquetIterDataset(path).batch(3)):
        iterator = iter(dataset)
        next(iterator)
        assert len(open_files(path)) == 1
        iterator.close()
        assert len(open_files(path)) == 0
        with pytest.raises(ValueError, match="closed"):
            next(iterator)


def test_uris_of_fsspec_are_read(path):
    memory = fsspec.filesystem("memory")
    memory.put(path, "/iter/a.parquet")
    try:
        uri = "memory://iter/a.parquet"
        assert all_same(list(ParquetIterDataset(uri)), list(ParquetIterDataset(path)))
        assert all_same(list(ParquetIterDataset("memory://iter/*")), list(ParquetIterDataset(path)))
    finally:
        memory.rm("/iter", recursive=True)


def test_files_are_read_over_http(path):
    with web_server(os.path.dirname(path)) as address:
        dataset = ParquetIterDataset(f"{address}/a.parquet")
        assert all_same(list(dataset), list(ParquetIterDataset(path)))
        iterator = iter(dataset)
        iterator.set_state({"row_group": 1, "index_within_row_group": 2})
        assert next(iterator)["id"] == 6
        iterator.close()


def test_grain_exports_and_opens_the_sources(path):
    assert grain.experimental.ParquetIterDataset is ParquetIterDataset
    assert grain.sources.ParquetIterDataset is ParquetIterDataset
    assert grain.sources.ParquetDataSource is ParquetDataSource
    opened = grain.sources.open(f"parquet://{path}", columns=["text"])
    assert opened[3] == {"text": "row 3"}
    assert grain.sources.open(path)[3]["text"] == "row 3"


@pytest.mark.parametrize(
    "values", [["a", None, "b", "a"], [b"a", None, b"b", b"a"]], ids=["text", "bytes"]
)
def test_a_null_among_values_of_a_dictionary_is_none(tmp_path, values):
    table = pa.table({"x": pa.array(values).dictionary_encode()})
    pq.write_table(table, tmp_path / "t.parquet", row_group_size=3)
    dataset = ParquetIterDataset(tmp_path / "t.parquet")
    assert [row["x"] for row in dataset] == values
    assert list(ParquetDataSource(tmp_path / "t.parquet")) == list(dataset)
    whole = list(dataset.filter(lambda row: row["x"] is not None).batch(3))
    assert whole[0]["x"].tolist() == [value for value in values if value is not None]


def ids(dataset) -> list[int]:
    return [int(row["id"]) for row in dataset]


@pytest.mark.parametrize(
    ("sl", "expected"),
    [
        (slice(1, None, 2), [100, 300, 101, 301]),
        (slice(2, 3), [200, 201]),
        (slice(None), [0, 100, 200, 300, 1, 101, 201, 301]),
    ],
)
@pytest.mark.parametrize("sequential", [False, True])
def test_a_slice_of_the_files_is_kept(tmp_path, sl, expected, sequential):
    dataset = ParquetIterDataset(files_of(tmp_path, [2, 2, 2, 2]))
    dataset.set_slice(sl, sequential)
    assert ids(dataset) == expected
    assert len(dataset) == len(expected)
    assert ids(pickle.loads(pickle.dumps(dataset))) == expected


def test_slices_of_slices_add_up_and_leave_iterators_alone(tmp_path):
    dataset = ParquetIterDataset(files_of(tmp_path, [2, 2, 2, 2]))
    iterator = iter(dataset)
    dataset.set_slice(slice(0, None, 2))
    dataset.set_slice(slice(1, None, 2))
    assert ids(dataset) == [200, 201]
    assert [batch["id"].tolist() for batch in dataset.batch(2)] == [[200, 201]]
    assert ids(iterator) == [0, 100, 200, 300, 1, 101, 201, 301]


def test_a_slice_without_files_is_refused_and_changes_nothing(tmp_path):
    dataset = ParquetIterDataset(files_of(tmp_path, [2, 2]))
    with pytest.raises(ValueError, match="selects none of 2 files"):
        dataset.set_slice(slice(2, None))
    with pytest.raises(TypeError, match="sl must be a slice, got 1 of type int"):
        dataset.set_slice(1)
    assert len(dataset) == 4
