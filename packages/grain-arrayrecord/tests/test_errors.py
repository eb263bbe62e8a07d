"""Missing, damaged and changed files, and wrong arguments."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from grain_arrayrecord import (
    ArrayRecordDataSource,
    ArrayRecordFileError,
    ArrayRecordFileNotFoundError,
    FileInstruction,
    readers,
    write_array_record,
)


@pytest.fixture
def path(tmp_path) -> str:
    path = str(tmp_path / "a.array_record")
    write_array_record(path, [b"%d" % i for i in range(10)])
    return path


def test_a_missing_file_is_named(tmp_path):
    missing = str(tmp_path / "nope.array_record")
    with pytest.raises(ArrayRecordFileNotFoundError, match=r"nope\.array_record"):
        ArrayRecordDataSource(missing)
    # The error types of other readers of the format.
    with pytest.raises(RuntimeError):
        ArrayRecordDataSource(missing)
    with pytest.raises(FileNotFoundError):
        ArrayRecordDataSource(missing)


def test_a_pattern_without_files_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"nope-\*"):
        ArrayRecordDataSource(str(tmp_path / "nope-*.array_record"))


def test_a_directory_is_refused_with_a_pattern_to_use(tmp_path):
    with pytest.raises(ArrayRecordFileError, match=r"\*\.array_record"):
        ArrayRecordDataSource(tmp_path)


@pytest.mark.parametrize("content", [b"", b"junk", b"junk" * 50_000], ids=len)
def test_a_file_of_another_format_is_named(tmp_path, content):
    path = tmp_path / "junk.array_record"
    path.write_bytes(content)
    with pytest.raises(ArrayRecordFileError, match=r"junk\.array_record.*write it again"):
        ArrayRecordDataSource(path)


def test_a_truncated_file_is_named(path):
    with open(path, "r+b") as file:
        file.truncate(70_000)
    with pytest.raises(ArrayRecordFileError, match=r"a\.array_record.*truncated"):
        ArrayRecordDataSource(path)


def test_damaged_records_are_reported_with_the_file(path):
    with open(path, "r+b") as file:
        file.seek(100)
        file.write(b"\xff" * 400)
    source = ArrayRecordDataSource(path)
    for read in (lambda: source[0], lambda: source.__getitems__([0, 1, 5])):
        with pytest.raises(ArrayRecordFileError, match=r"a\.array_record.*damaged"):
            read()


def test_a_file_with_another_number_of_records_than_recorded_is_refused(path):
    data = pickle.dumps(ArrayRecordDataSource(path))
    write_array_record(path, [b"%d" % i for i in range(11)])
    with pytest.raises(ArrayRecordFileError, match="11 records, but held 10"):
        pickle.loads(data)[0]


def test_a_file_of_another_size_than_recorded_is_refused(path):
    data = pickle.dumps(ArrayRecordDataSource(path))
    write_array_record(path, [bytes([i]) * 50_000 for i in range(10)], compression="uncompressed")
    with pytest.raises(ArrayRecordFileError, match="bytes long, but was"):
        pickle.loads(data)[0]


def test_a_file_that_vanished_under_a_pickled_source_is_named(path, tmp_path):
    data = pickle.dumps(ArrayRecordDataSource(path))
    (tmp_path / "a.array_record").unlink()
    with pytest.raises(ArrayRecordFileNotFoundError, match=r"a\.array_record"):
        pickle.loads(data)[0]


def test_an_instruction_that_does_not_fit_the_file_is_refused(path):
    source = ArrayRecordDataSource(FileInstruction(path, skip=0, take=5, examples_in_shard=99))
    with pytest.raises(ArrayRecordFileError, match="10 records, but held 99"):
        source[0]
    with pytest.raises(ValueError, match="take=8 and skip=5"):
        ArrayRecordDataSource(FileInstruction(path, skip=5, take=8, examples_in_shard=10))
    with pytest.raises(ArrayRecordFileError, match="records 4 to 99"):
        ArrayRecordDataSource(f"{path}[4:99]")
    with pytest.raises(ValueError, match="ends before"):
        ArrayRecordDataSource(f"{path}[4:3]")


@pytest.mark.parametrize("paths", [[], (), 5, None, b"x", [5], [None, "a"]])
def test_paths_of_another_kind_are_refused(paths):
    with pytest.raises(ValueError, match=r"0 length|Unsupported path format|All elements"):
        ArrayRecordDataSource(paths)


def test_a_failed_write_leaves_nothing_behind(tmp_path):
    def records():
        yield b"fine"
        raise OSError("the disk broke")

    with pytest.raises(OSError, match="broke"):
        write_array_record(tmp_path / "a.array_record", records())
    with pytest.raises(TypeError, match="Record 1 must be bytes, got str"):
        write_array_record(tmp_path / "a.array_record", [b"fine", "text"])
    with pytest.raises(ValueError, match="group_size"):
        write_array_record(tmp_path / "a.array_record", [], group_size=0)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("compression", ["", "zstd:9", "brotli:3", "snappy", "uncompressed"])
@pytest.mark.parametrize("group_size", [1, 4, 1000])
def test_what_is_written_is_read(tmp_path, compression, group_size):
    path = tmp_path / "a.array_record"
    records = [b"", b"\x00", *(bytes([i]) * i for i in range(30))]
    assert (
        write_array_record(path, iter(records), group_size=group_size, compression=compression)
        == 32
    )
    source = ArrayRecordDataSource(path)
    assert list(source) == records
    assert source.__getitems__([31, 0, 5, 5, 30]) == [records[i] for i in (31, 0, 5, 5, 30)]


def test_a_file_without_permission_is_not_reported_as_damaged(path, monkeypatch):
    class Refused:
        def __init__(self, *arguments):
            raise RuntimeError("open() failed: Permission denied")

    def refuse(*arguments):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(readers.array_record_module, "ArrayRecordReader", Refused)
    monkeypatch.setattr(readers, "open", refuse, raising=False)
    with pytest.raises(PermissionError, match=r"No permission to read .*a\.array_record"):
        ArrayRecordDataSource(path)
    with pytest.raises(ArrayRecordFileError):
        ArrayRecordDataSource(path)


def test_an_index_beyond_64_bits_is_reported_as_given(path):
    with pytest.raises(IndexError, match=str(2**63 + 5)):
        ArrayRecordDataSource(path).__getitems__(np.array([1, 2**63 + 5], np.uint64))


def test_a_file_uri_is_a_local_path(tmp_path):
    path = tmp_path / "mein Ordner" / "ä [1].array_record"
    path.parent.mkdir()
    write_array_record(path, [b"one", b"two"])
    for uri in (path.as_uri(), f"file://{path}", f"file://localhost{path}"):
        source = ArrayRecordDataSource([uri])
        assert source.paths == [str(path)]
        assert source[1] == b"two"
    with pytest.raises(FileNotFoundError, match=r"nope\.array_record"):
        ArrayRecordDataSource(f"file://{tmp_path}/nope.array_record")


def test_a_remote_file_is_not_called_damaged():
    with pytest.raises(FileNotFoundError, match=r"s3://bucket/x.*copy the files") as caught:
        ArrayRecordDataSource("s3://bucket/x.array_record")
    assert "damaged" not in str(caught.value)
