"""Lines by index and in pipelines, and damaged or changed files."""

from __future__ import annotations

import json
import os
import pathlib
import pickle
import subprocess
import sys
import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import grain
from grain_jsonl import JsonLinesDataSource, JsonLinesFileError, write_index

VALUES = [{"id": i, "text": "ü" * (i % 5)} for i in range(30)]


@pytest.fixture(scope="module")
def directory(tmp_path_factory) -> pathlib.Path:
    directory = tmp_path_factory.mktemp("lines")
    for shard, values in enumerate((VALUES[:7], [], VALUES[7:8], VALUES[8:])):
        lines = [json.dumps(value, ensure_ascii=False) + "\n" for value in values]
        (directory / f"part-{shard}.jsonl").write_text("".join(lines), encoding="utf-8")
    return directory


@pytest.fixture(scope="module")
def source(directory) -> JsonLinesDataSource:
    return JsonLinesDataSource(str(directory / "*.jsonl"))


def test_lines_of_all_files_follow_one_another(source):
    assert len(source) == 30
    assert [source[i] for i in range(30)] == VALUES


@given(indices=st.lists(st.integers(0, 29), max_size=40))
@settings(deadline=None)
def test_a_batched_read_equals_single_reads_in_the_requested_order(source, indices):
    assert source.__getitems__(indices) == [VALUES[i] for i in indices]
    assert source.__getitems__(np.array(indices, np.int64)) == [VALUES[i] for i in indices]


@pytest.mark.parametrize(
    "text", ["1\n2\n3", "1\n2\n3\n", "\n\n1\n\n2\n3\n\n", "1\r\n2\r\n\r\n3\r\n", " 1\n2 \n3\n"]
)
@pytest.mark.parametrize("indexed", [False, True])
def test_line_ends_and_empty_lines_do_not_matter(tmp_path, text, indexed):
    path = tmp_path / "a.jsonl"
    path.write_text(text, newline="")
    if indexed:
        write_index(path)
    source = JsonLinesDataSource(path)
    assert [source[i] for i in range(len(source))] == [1, 2, 3]
    assert source.__getitems__([2, 0, 0]) == [3, 1, 1]


def test_an_empty_file_is_an_empty_source(tmp_path):
    (tmp_path / "a.jsonl").write_text("")
    assert len(JsonLinesDataSource(tmp_path / "a.jsonl")) == 0


def test_an_index_file_is_used_and_not_pickled(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text("1\n" * 10_000)
    pickled = len(pickle.dumps(JsonLinesDataSource(path)))
    write_index(path)
    source = JsonLinesDataSource(path)
    assert source[9_999] == 1
    data = pickle.dumps(source)
    assert len(data) < 1_000 < pickled
    assert pickle.loads(data).__getitems__([0, 9_999]) == [1, 1]


def test_offsets_without_an_index_file_take_few_bytes_in_a_pickle(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text("\n" + "".join(f"{number}\n" for number in range(10_000)))
    source = JsonLinesDataSource(path)
    data = pickle.dumps(source)
    assert len(data) < 12_000
    assert pickle.loads(data).__getitems__(range(10_000)) == list(range(10_000))


@pytest.mark.parametrize("in_place", [True, False], ids=["written in place", "replaced"])
def test_a_file_of_the_same_size_with_other_contents_is_refused(tmp_path, in_place):
    path = tmp_path / "a.jsonl"
    path.write_text("1\n2\n")
    source = JsonLinesDataSource(path)
    data = pickle.dumps(source)
    assert source[0] == 1
    later = path.stat().st_mtime_ns + 10**9
    if not in_place:
        path.unlink()
    path.write_text("3\n4\n")
    # Coarse clocks may give both writes the same time.
    os.utime(path, ns=(later, later))
    for refused in [pickle.loads(data), *([source] if in_place else [])]:
        with pytest.raises(JsonLinesFileError, match=r"a\.jsonl was written again.*Create the"):
            refused[0]
    source.close()
    with pytest.raises(JsonLinesFileError, match="was written again"):
        source.__getitems__([0, 1])
    assert list(JsonLinesDataSource(path)) == [3, 4]


def test_an_index_file_older_than_the_file_is_not_used(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text("123\n4\n")
    index = write_index(path)
    path.write_text("1\n234\n")
    earlier = path.stat().st_mtime_ns - 10**9
    os.utime(index, ns=(earlier, earlier))
    assert list(JsonLinesDataSource(path)) == [1, 234]


def test_an_index_file_of_another_file_is_not_used(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text("1\n2\n")
    write_index(path)
    path.write_text("1\n2\n3\n")
    assert len(JsonLinesDataSource(path)) == 3


def test_indices_are_whole_numbers_inside_of_the_source(source):
    assert source[np.int64(3)] == VALUES[3]
    for outside in (-1, 30):
        with pytest.raises(IndexError, match="outside of a source of 30 lines"):
            source[outside]
    for wrong in (1.0, "a", slice(0, 1)):
        with pytest.raises(TypeError):
            source[wrong]
    with pytest.raises(TypeError, match="flat"):
        source.__getitems__([[0]])


def test_threads_read_while_others_close(source):
    wrong = []

    def read(seed: int) -> None:
        for indices in np.random.default_rng(seed).integers(0, 30, (50, 10)):
            if source.__getitems__(indices) != [VALUES[i] for i in indices]:
                wrong.append(seed)
            if seed == 0:
                source.close()

    threads = [threading.Thread(target=read, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_the_repr_is_the_same_in_every_process(source, directory):
    script = (
        "import sys; from grain_jsonl import JsonLinesDataSource;"
        "print(repr(JsonLinesDataSource(sys.argv[1])))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(directory / "*.jsonl")],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == repr(source)
    assert repr(JsonLinesDataSource(directory / "part-0.jsonl")) != repr(source)


def test_a_missing_file_is_named(tmp_path):
    for path in (tmp_path / "nope.jsonl", tmp_path / "nope-*.jsonl"):
        with pytest.raises(FileNotFoundError, match=path.name.replace("*", r"\*")):
            JsonLinesDataSource(path)
    with pytest.raises(IsADirectoryError, match=rf"{tmp_path.name} is a directory.*\*\.jsonl"):
        JsonLinesDataSource(tmp_path)
    with pytest.raises(ValueError, match="at least one"):
        JsonLinesDataSource([])


def test_a_bad_line_is_named_with_its_file(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text('{"a": 1}\n{"a": \n{"a": 3}\n')
    source = JsonLinesDataSource(path)
    assert source[2] == {"a": 3}
    with pytest.raises(JsonLinesFileError, match=r"Line 2 .* of .*a\.jsonl is not JSON"):
        source[1]


@pytest.mark.parametrize("text", ["1\n", "1\n2\n3\n"])
def test_a_file_that_changed_is_refused(tmp_path, text):
    path = tmp_path / "a.jsonl"
    path.write_text("1\n2\n")
    data = pickle.dumps(JsonLinesDataSource(path))
    path.write_text(text)
    with pytest.raises(JsonLinesFileError, match=r"a\.jsonl is . bytes long, but was 4"):
        pickle.loads(data)[0]


def test_grain_finds_it_by_name_by_suffix_and_by_scheme(directory):
    assert grain.sources.JsonLinesDataSource is JsonLinesDataSource
    pattern = str(directory / "*.jsonl")
    for uri in (pattern, f"jsonl://{pattern}"):
        opened = grain.sources.open(uri)
        assert isinstance(opened, JsonLinesDataSource)
        assert opened[12] == VALUES[12]


def test_a_pipeline_resumes_at_every_step(source):
    dataset = grain.MapDataset.source(source).shuffle(seed=5).map(lambda e: e["id"]).repeat(2)
    batches = dataset.to_iter_dataset().batch(7)
    everything = [batch.tolist() for batch in batches]
    assert sorted(i for batch in everything for i in batch) == sorted([*range(30), *range(30)])
    iterator = iter(batches)
    for step in range(len(everything)):
        resumed = iter(batches)
        resumed.set_state(json.loads(json.dumps(iterator.get_state())))
        assert [batch.tolist() for batch in resumed] == everything[step:]
        next(iterator)


def test_a_pattern_ignores_directories(tmp_path):
    (tmp_path / "a.jsonl").write_text("1\n")
    (tmp_path / "b.jsonl").mkdir()
    assert list(JsonLinesDataSource(str(tmp_path / "*.jsonl"))) == [1]


def open_files(directory) -> int:
    links = (os.path.join("/proc/self/fd", name) for name in os.listdir("/proc/self/fd"))
    # The descriptor of the listing itself no longer exists.
    paths = [os.readlink(link) for link in links if os.path.exists(link)]
    return sum(path.startswith(str(directory)) for path in paths)


def test_any_number_of_files_is_read_with_few_of_them_open(tmp_path):
    for number in range(150):
        (tmp_path / f"{number:03}.jsonl").write_text(f"{number}\n")
    with JsonLinesDataSource(str(tmp_path / "*.jsonl")) as source:
        order = np.random.default_rng(0).permutation(150)
        assert source.__getitems__(order) == order.tolist()
        assert open_files(tmp_path) == 64
        assert source[int(order[0])] == order[0]
    assert open_files(tmp_path) == 0


@pytest.mark.parametrize("index", [-1, 30, 2**63, 2**70])
def test_an_index_outside_is_reported_as_given(source, index):
    with pytest.raises(IndexError, match=str(index)):
        source[index]
    if 0 <= index < 2**64:
        with pytest.raises(IndexError, match=str(index)):
            source.__getitems__(np.array([0, index], np.uint64))


@pytest.mark.parametrize("content", [b"", b"junk", None], ids=["empty", "junk", "of other numbers"])
def test_an_invalid_index_file_is_not_used(tmp_path, content):
    path = tmp_path / "a.jsonl"
    path.write_text("1\n2\n")
    index = pathlib.Path(write_index(path))
    if content is None:
        np.save(index, np.array([0.5, 4.0]))
    else:
        index.write_bytes(content)
    assert list(JsonLinesDataSource(path)) == [1, 2]
