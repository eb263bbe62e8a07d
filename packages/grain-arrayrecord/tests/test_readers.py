"""Read strategies, and files that change after they were opened or recorded."""

from __future__ import annotations

import os
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

RECORDS = [b"%05d " % number * 200 for number in range(2000)]


@pytest.fixture
def path(tmp_path) -> str:
    path = str(tmp_path / "a.array_record")
    write_array_record(path, RECORDS, compression="uncompressed")
    return path


@pytest.fixture(params=["path", "instruction"])
def source(request, path) -> ArrayRecordDataSource:
    if request.param == "path":
        return ArrayRecordDataSource(path)
    return ArrayRecordDataSource(FileInstruction(path, 0, len(RECORDS), len(RECORDS)))


def write_again_later(path: str, records: list[bytes]) -> None:
    before = os.stat(path).st_mtime_ns
    write_array_record(path, records, compression="uncompressed")
    # Coarse clocks may give both writes the same time.
    os.utime(path, ns=(before + 10**9, before + 10**9))


@pytest.mark.parametrize("strategy", [0, 1], ids=["ranges", "threads"])
@pytest.mark.parametrize("group_size", [1, 7])
def test_both_strategies_read_the_same_records(strategy, group_size, tmp_path, monkeypatch):
    monkeypatch.setattr(readers.StrategySelector, "select", lambda self: strategy)
    expected = RECORDS[:25]
    write_array_record(tmp_path / "a.array_record", expected, group_size=group_size)
    source = ArrayRecordDataSource(tmp_path / "a.array_record")
    for size in (2, 40, 100, 300):
        for batch in np.random.default_rng(size).integers(0, len(expected), (10, size)):
            assert source.__getitems__(batch) == [expected[i] for i in batch]


def test_the_faster_strategy_is_selected_and_the_slower_is_probed():
    selector = readers.StrategySelector()
    seconds = [0.1, 0.2]
    selected = []
    for step in range(300):
        if step == 100:
            seconds.reverse()
        strategy = selector.select()
        selected.append(strategy)
        selector.record(strategy, seconds[strategy])
    assert selected[:2] == [0, 1]
    assert 90 <= selected[:100].count(0) < 99
    assert selected[-20:].count(1) >= 19


@pytest.mark.parametrize("strategy", [0, 1], ids=["ranges", "threads"])
def test_a_file_truncated_while_open_is_an_error(strategy, source, path, monkeypatch):
    monkeypatch.setattr(readers.StrategySelector, "select", lambda self: strategy)
    size = os.path.getsize(path)
    assert source[0] == RECORDS[0]
    with open(path, "r+b") as file:
        file.truncate(size // 3)
    message = rf"a\.array_record is {size // 3} bytes long, but was {size} when it was opened"
    for indices in ([1999], [1990, 1995], range(1800, 2000), [0, 1999]):
        with pytest.raises(ArrayRecordFileError, match=message):
            source.__getitems__(indices)


def test_a_file_removed_after_truncation_is_an_error(source, path):
    assert source[0] == RECORDS[0]
    with open(path, "r+b") as file:
        file.truncate(os.path.getsize(path) // 3)
    os.unlink(path)
    with pytest.raises(ArrayRecordFileNotFoundError, match=r"a\.array_record was removed"):
        source[1999]


def test_empty_records_of_an_unchanged_file_are_read(tmp_path):
    path = tmp_path / "a.array_record"
    write_array_record(path, [b"", b"x", *[b""] * 200])
    source = ArrayRecordDataSource(path)
    assert source[0] == b""
    assert source.__getitems__(range(202)) == [b"", b"x", *[b""] * 200]


def test_a_file_replaced_by_another_of_the_same_size_is_refused_when_opened_again(source, path):
    pickled, size = pickle.dumps(source), os.path.getsize(path)
    write_again_later(path, RECORDS[::-1])
    assert os.path.getsize(path) == size
    copy = pickle.loads(pickled)
    with pytest.raises(ArrayRecordFileError, match=r"a\.array_record was written again after"):
        copy[0]
    with pytest.raises(ArrayRecordFileError, match="Create the source again"):
        copy.__getitems__([0, 5, 7])
    source.close()
    with pytest.raises(ArrayRecordFileError, match="was written again"):
        source[0]
    assert ArrayRecordDataSource(path)[0] == RECORDS[-1]
