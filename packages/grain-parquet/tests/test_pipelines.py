"""Pipelines over the source have one stream and one state with every executor."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.source_pipelines import (
    ColumnsOverASource,
    PipelinesOverASource,
    expect_refused,
    from_each,
    in_processes,
    loader,
    rests,
    steps,
    steps_of,
)

from grain_parquet import ParquetDataSource, ParquetIterDataset


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    directory = tmp_path_factory.mktemp("tables")
    for shard, size in enumerate((4, 7, 1)):
        ids = np.arange(size) + 10 * shard
        table = pa.table({"id": ids, "text": [f"row {i}" for i in ids]})
        pq.write_table(table, directory / f"{shard}.parquet", row_group_size=2)
    return ParquetDataSource(str(directory / "*.parquet"), cache_bytes=200)


class TestPipelines(PipelinesOverASource, ColumnsOverASource):
    @staticmethod
    def function(row):
        return row["id"] * 2


@pytest.mark.parametrize("files", [slice(0, 1), slice(None)], ids=["one file", "several"])
def test_rows_in_order_are_the_same_from_processes(source, files):
    dataset = ParquetIterDataset(source.paths[files]).map(lambda row: row["id"] + 1).batch(3)
    elements, states = steps(dataset)
    with iter(in_processes(dataset)) as iterator:
        assert steps_of(iterator) == (elements, states)
        assert from_each(iterator, json.loads(json.dumps(states))) == rests(elements)


def test_a_checkpoint_of_a_changed_file_is_refused(tmp_path):
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"id": np.arange(12)}), path)
    _, states = steps(loader(ParquetDataSource(path), 0))
    pq.write_table(pa.table({"id": np.arange(12)}), path, row_group_size=5)
    expect_refused(states[1], ParquetDataSource(path))
