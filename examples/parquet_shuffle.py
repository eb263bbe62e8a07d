"""Rows of several Parquet files in a global random order, not just shuffled file by file.

Install: pip install ./packages/grain-core ./packages/grain-parquet
Run:     python examples/parquet_shuffle.py
"""

from __future__ import annotations

import pathlib
import tempfile

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import grain

FILES, ROWS = 4, 500


def make_files(folder: pathlib.Path) -> None:
    """Write a table of houses in four files, in row groups of 100 rows."""
    rng = np.random.default_rng(0)
    for number in range(FILES):
        area = rng.uniform(30, 200, ROWS)
        table = pa.table(
            {
                "id": np.arange(ROWS) + ROWS * number,
                "area": area.astype(np.float32),
                "price": (3000 * area + rng.normal(scale=20_000, size=ROWS)).astype(np.float32),
                "street": [f"street {house % 7}" for house in range(ROWS)],
            }
        )
        pq.write_table(table, folder / f"houses-{number}.parquet", row_group_size=100)


def main(folder: pathlib.Path) -> None:
    """Read the files as one dataset."""
    make_files(folder)
    source = grain.sources.ParquetDataSource(
        f"{folder}/houses-*.parquet", columns=["id", "area", "price"]
    )
    print(f"{len(source)} rows; the first:", {k: v.item() for k, v in source[0].items()})

    ds = grain.MapDataset.source(source).shuffle(seed=7).batch(100)
    for batch in ds[:3]:
        files = np.bincount(batch["id"] // ROWS, minlength=FILES)
        print("a batch has rows of all files:", files)

    # With workers or without, the batches are the same.
    batches = ds.to_iter_dataset().mp_prefetch(grain.MultiprocessingOptions(num_workers=2))
    with iter(batches) as iterator:
        ids = np.concatenate([batch["id"] for batch in iterator])
    print("every row once:", np.array_equal(np.sort(ids), np.arange(FILES * ROWS)))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        main(pathlib.Path(temporary))
