"""Pipelines over the source have one stream and one state with every executor."""

from __future__ import annotations

import pytest
from tests.source_pipelines import PipelinesOverASource, expect_refused, loader, steps

import grain
from grain_arrayrecord import ArrayRecordDataSource, write_array_record


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    directory = tmp_path_factory.mktemp("records")
    for shard, size in enumerate((4, 7, 1)):
        records = [b"record %d of %d" % (number, shard) * number for number in range(size)]
        write_array_record(directory / f"{shard}.array_record", records, group_size=3)
    return ArrayRecordDataSource(str(directory / "*.array_record"))


class TestPipelines(PipelinesOverASource):
    @staticmethod
    def function(record):
        return len(record)


def test_a_checkpoint_of_other_files_is_refused(source, tmp_path):
    write_array_record(tmp_path / "other.array_record", [b"x"] * len(source))
    other = ArrayRecordDataSource(tmp_path / "other.array_record")
    _, states = steps(loader(source, 0))
    expect_refused(states[1], other)


def test_grain_exports_and_opens_the_source(source):
    assert grain.sources.ArrayRecordDataSource is ArrayRecordDataSource
    assert grain.ArrayRecordDataSource is ArrayRecordDataSource
    path = source.paths[1]
    for uri in (path, f"arrayrecord://{path}"):
        assert (
            grain.sources.open(uri, reader_options={"index_storage_option": "in_memory"})[0] == b""
        )
