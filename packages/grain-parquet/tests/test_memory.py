"""Memory: decoded row groups stay within their bound, and rows do not reference them."""

from __future__ import annotations

import gc

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from grain_parquet import ParquetDataSource


def test_decoded_row_groups_stay_within_the_bound(tmp_path):
    rows, group = 20_000, 500
    text = pa.array([f"{i:0100d}" for i in range(rows)])
    pq.write_table(pa.table({"text": text}), tmp_path / "t.parquet", row_group_size=group)
    bound = 5 * group * 110
    source = ParquetDataSource(tmp_path / "t.parquet", cache_bytes=bound)
    before = pa.total_allocated_bytes()
    for indices in np.random.default_rng(0).permutation(rows).reshape(-1, 200):
        rows_read = source.__getitems__(indices)
        assert [int(row["text"]) for row in rows_read] == indices.tolist()
        assert pa.total_allocated_bytes() - before <= 2 * bound
    source.close()
    assert pa.total_allocated_bytes() <= before + 1000


def test_row_groups_that_grow_a_thousandfold_when_decoded_stay_within_the_bound(tmp_path):
    rows, group = 20_000, 1000
    texts = pa.array(["the same long text " * 20] * rows)
    numbers = pa.array(np.arange(rows))
    table = pa.table({"n": numbers, "text": texts})
    pq.write_table(table, tmp_path / "t.parquet", row_group_size=group)
    bound = 3 * group * 400
    source = ParquetDataSource(tmp_path / "t.parquet", cache_bytes=bound)
    metadata = pq.read_metadata(tmp_path / "t.parquet")
    groups = range(metadata.num_row_groups)
    assert sum(metadata.row_group(i).total_byte_size for i in groups) * 4 < bound
    before = pa.total_allocated_bytes()
    for indices in np.random.default_rng(0).permutation(rows).reshape(-1, 500):
        assert [row["n"] for row in source.__getitems__(indices)] == indices.tolist()
        assert pa.total_allocated_bytes() - before <= 2 * bound


def test_row_groups_are_read_singly_when_later_ones_grow_more_than_the_first(tmp_path, group_reads):
    few = [f"{i:06d}" for i in range(1000)]
    many = ["the same long text " * 20] * 9000
    pq.write_table(pa.table({"t": few + many}), tmp_path / "t.parquet", row_group_size=1000)
    source = ParquetDataSource(tmp_path / "t.parquet", cache_bytes=1_000_000)
    order = np.random.default_rng(0).permutation(10_000)
    for indices in order.reshape(-1, 500):
        read = [row["t"] for row in source.__getitems__(indices)]
        assert read == [(few + many)[i] for i in indices]
    # One row group as a sample, then all at once, which turned out too large.
    assert group_reads[:2] == [[0], list(range(10))]
    assert {len(groups) for groups in group_reads[2:]} == {1}


def test_rows_that_are_kept_do_not_keep_their_row_groups(tmp_path):
    data = {
        "n": np.arange(10_000),
        "l": pa.FixedSizeListArray.from_arrays(pa.array(np.arange(80_000)), 8),
        "r": pa.ListArray.from_arrays(
            pa.array(np.arange(10_001, dtype=np.int32) * 4), pa.array(np.arange(40_000))
        ),
    }
    pq.write_table(pa.table(data), tmp_path / "t.parquet", row_group_size=5000)
    source = ParquetDataSource(tmp_path / "t.parquet", cache_bytes=0)
    before = pa.total_allocated_bytes()
    kept = [source[1], source[9000], *source.__getitems__([3, 8000]), source.__getcolumns__([5, 6])]
    gc.collect()
    assert pa.total_allocated_bytes() <= before + 1000
    assert len(kept) == 5
