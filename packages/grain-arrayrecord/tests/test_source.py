"""Reading records: order, ranges, many files, processes, threads."""

from __future__ import annotations

import gc
import multiprocessing
import pathlib
import pickle
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.descriptors import open_files
from tests.threads import run_in_threads

import grain_arrayrecord.source
from grain_arrayrecord import ArrayRecordDataSource, FileInstruction, write_array_record

SIZES = (5, 1, 7, 12)


def record(shard: int, number: int) -> bytes:
    return f"shard {shard} record {number}".encode() * (1 + number % 3)


@pytest.fixture(scope="module")
def directory(tmp_path_factory) -> pathlib.Path:
    directory = tmp_path_factory.mktemp("records")
    for shard, size in enumerate(SIZES):
        write_array_record(
            directory / f"train-{shard:05d}.array_record",
            (record(shard, number) for number in range(size)),
            group_size=1 + shard * 2,
        )
    return directory


@pytest.fixture(scope="module")
def files(directory) -> list[str]:
    return sorted(str(path) for path in directory.iterdir())


@pytest.fixture(scope="module")
def expected() -> list[bytes]:
    return [record(shard, number) for shard, size in enumerate(SIZES) for number in range(size)]


@pytest.fixture(scope="module")
def source(files) -> ArrayRecordDataSource:
    return ArrayRecordDataSource(files)


def test_records_of_all_files_follow_one_another(source, expected):
    assert len(source) == sum(SIZES)
    assert [source[i] for i in range(len(source))] == expected
    assert list(source) == expected


def test_a_path_a_path_object_a_pattern_and_a_list_all_work(directory, files, expected):
    assert ArrayRecordDataSource(files[0])[4] == expected[4]
    assert ArrayRecordDataSource(pathlib.Path(files[0]))[4] == expected[4]
    pattern = str(directory / "train-*.array_record")
    for paths in (pattern, [pattern], tuple(files)):
        found = ArrayRecordDataSource(paths)
        assert found.paths == files
        assert found.__getitems__(range(len(found))) == expected


def test_a_file_whose_name_looks_like_a_pattern_is_that_file(tmp_path):
    path = tmp_path / "a[0-9].array_record"
    write_array_record(path, [b"x"])
    write_array_record(tmp_path / "a5.array_record", [b"y"])
    assert list(ArrayRecordDataSource(path)) == [b"x"]


@given(data=st.data())
@settings(deadline=None)
def test_a_batched_read_equals_single_reads_in_the_requested_order(data, source, expected):
    indices = data.draw(st.lists(st.integers(0, len(expected) - 1), max_size=60))
    wanted = [expected[i] for i in indices]
    assert source.__getitems__(indices) == wanted
    assert source.__getitems__(np.array(indices, dtype=np.int64)) == wanted


def test_file_instructions_select_ranges_of_files(files, expected):
    source = ArrayRecordDataSource(
        [
            FileInstruction(files[0], skip=1, take=3, examples_in_shard=5),
            FileInstruction(files[2], skip=2, take=-1, examples_in_shard=7),
            FileInstruction(files[0], skip=0, take=2, examples_in_shard=5),
        ]
    )
    wanted = expected[1:4] + expected[8:13] + expected[0:2]
    assert list(source) == wanted
    assert source.__getitems__(range(9, -1, -1)) == wanted[::-1]


def test_a_path_may_end_in_a_range(files, expected):
    source = ArrayRecordDataSource([f"{files[3]}[4:6]", f"{files[0]}[3:3]"])
    assert list(source) == expected[17:19]


def test_no_file_is_opened_to_count_what_instructions_count(files):
    gc.collect()
    before = open_files(".array_record")
    source = ArrayRecordDataSource(
        [FileInstruction(path, 0, 1, SIZES[i]) for i, path in enumerate(files)]
    )
    assert len(source) == 4
    assert open_files(".array_record") == before


def test_only_files_that_are_read_are_opened_and_close_releases_them(files):
    gc.collect()
    before = len(open_files(".array_record"))
    source = pickle.loads(pickle.dumps(ArrayRecordDataSource(files)))
    gc.collect()
    assert len(open_files(".array_record")) == before
    assert source[0]
    assert len(open_files(".array_record")) == before + 1
    assert source.__getitems__([0, 5, 6])
    assert len(open_files(".array_record")) == before + 3
    source.close()
    assert len(open_files(".array_record")) == before
    with source:
        assert source[0]
        assert len(open_files(".array_record")) == before + 1
    assert len(open_files(".array_record")) == before


def test_no_more_files_than_allowed_stay_open(files, expected, monkeypatch):
    monkeypatch.setattr(grain_arrayrecord.source, "_open_files_limit", lambda: 2)
    gc.collect()
    before = len(open_files(".array_record"))
    source = ArrayRecordDataSource(files)
    for _ in range(2):
        assert source.__getitems__(range(len(source))) == expected
        assert len(open_files(".array_record")) <= before + 2


@pytest.mark.parametrize("index", [-1, sum(SIZES), 10**20])
def test_an_index_outside_is_an_index_error(source, index):
    with pytest.raises(IndexError, match="num_records"):
        source[index]
    with pytest.raises((IndexError, TypeError)):
        source.__getitems__([0, index])


def test_whole_numbers_of_any_kind_are_indices_and_nothing_else(source, expected):
    assert source[np.int64(3)] == expected[3]
    assert source[np.uint8(3)] == expected[3]
    assert source.__getitems__([]) == []
    assert source.__getitems__(np.array([3], np.uint32)) == [expected[3]]
    with pytest.raises(TypeError):
        source[1.0]
    with pytest.raises(TypeError, match="integers"):
        source.__getitems__([1.5, 2.5])
    with pytest.raises(TypeError, match="flat"):
        source.__getitems__([[1, 2], [3, 4]])


def test_an_empty_file_is_an_empty_source(tmp_path):
    path = tmp_path / "empty.array_record"
    assert write_array_record(path, []) == 0
    source = ArrayRecordDataSource(path)
    assert len(source) == 0
    with pytest.raises(IndexError):
        source[0]


def test_reader_options_reach_the_reader(files, expected):
    source = ArrayRecordDataSource(files[0], reader_options={"index_storage_option": "in_memory"})
    assert source[2] == expected[2]
    with pytest.raises(ValueError, match="bogus"):
        ArrayRecordDataSource(files[0], reader_options={"index_storage_option": "bogus"})
    with pytest.raises(TypeError, match="mapping"):
        ArrayRecordDataSource(files[0], reader_options="index_storage_option:in_memory")


def test_the_repr_is_short_and_the_same_in_every_process(files):
    source = ArrayRecordDataSource(files)
    script = (
        "import sys; from grain_arrayrecord import ArrayRecordDataSource;"
        "print(repr(ArrayRecordDataSource(sys.argv[1:])))"
    )
    other = subprocess.run(
        [sys.executable, "-c", script, *files], capture_output=True, text=True, check=True
    )
    assert other.stdout.strip() == repr(source)
    assert repr(pickle.loads(pickle.dumps(source))) == repr(source)
    assert repr(ArrayRecordDataSource(files[:1])) != repr(source)


def test_the_repr_equals_the_text_in_existing_checkpoints(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_array_record("a.array_record", [b"x"])
    # sha1 of the joined paths.
    assert repr(ArrayRecordDataSource("a.array_record")) == (
        "ArrayRecordDataSource(hash_of_paths=112081a784b7e527bb99881f1651f045bdcf9291)"
    )


def test_a_used_source_pickles_small_and_its_copy_reads(source, expected):
    assert source.__getitems__(range(10))
    data = pickle.dumps(source)
    assert len(data) < 4000
    copy = pickle.loads(data)
    assert copy[7] == expected[7]
    assert len(copy) == len(source)


def test_many_threads_read_one_source(files, expected):
    source = ArrayRecordDataSource(files)
    source.close()

    def read(seed: int) -> None:
        rng = np.random.default_rng(seed)
        for indices in rng.integers(0, len(expected), (50, 11)):
            assert source.__getitems__(indices) == [expected[i] for i in indices]
            assert source[indices[0]] == expected[indices[0]]
            if seed == 0:
                source.close()

    run_in_threads(read, 6)


def _read_in_child(source, indices, queue):
    queue.put(source.__getitems__(indices))


def test_a_used_source_works_in_a_spawned_process(files, expected):
    source = ArrayRecordDataSource(files)
    indices = [20, 3, 11, 3]
    assert source.__getitems__(indices) == [expected[i] for i in indices]
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    child = context.Process(target=_read_in_child, args=(source, indices, queue))
    child.start()
    assert queue.get(timeout=60) == [expected[i] for i in indices]
    child.join(60)
    assert child.exitcode == 0
    assert source[3] == expected[3]


def test_a_source_not_read_before_a_fork_works_in_the_child(files):
    # In a new process, where the format's library has not started its threads.
    script = """
import os, sys
from grain_arrayrecord import ArrayRecordDataSource, FileInstruction
source = ArrayRecordDataSource(FileInstruction(sys.argv[1], 0, 5, 5))
child = os.fork()
if child == 0:
    assert source[4] == b"shard 0 record 4" * 2
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
assert source[4] == b"shard 0 record 4" * 2
"""
    subprocess.run([sys.executable, "-c", script, files[0]], check=True, timeout=60)
