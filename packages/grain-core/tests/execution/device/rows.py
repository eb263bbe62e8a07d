"""Records that worker processes make, in a module that they import without JAX."""

from __future__ import annotations

from typing import Any

import numpy as np

import grain

ROW = 8 * 1024
SIZE = 4
BATCHES = 24


def row(i: int) -> dict[str, Any]:
    return {"x": np.full(ROW, i, np.float32), "small": np.full(3, i, np.int32)}


def batches(workers: int, epochs: int = 1) -> grain.IterDataset[Any]:
    ds = grain.MapDataset.range(BATCHES * SIZE).repeat(epochs).map(row).batch(SIZE)
    options = grain.MultiprocessingOptions(num_workers=workers, per_worker_buffer_size=1)
    return ds.to_iter_dataset().mp_prefetch(options)


def short_row(i: int) -> dict[str, Any]:
    return {"x": np.full(4, i, np.int32), "none": None}


def assert_is_batch(element: Any, number: int) -> None:
    first = number % BATCHES * SIZE
    expected = np.arange(first, first + SIZE)
    assert (np.asarray(element["x"]) == expected[:, None]).all()
    assert (np.asarray(element["small"]) == expected[:, None]).all()
