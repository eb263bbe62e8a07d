"""Ends in the middle, with elements in worker processes, in threads and on the device."""

from __future__ import annotations

import jax
import numpy as np

import grain

if __name__ == "__main__":
    rows = np.arange(400 * 20_000, dtype=np.float32).reshape(400, 20_000)
    ds = grain.MapDataset.source(rows).batch(4).to_iter_dataset()
    workers = grain.MultiprocessingOptions(num_workers=2)
    iterator = iter(grain.experimental.device_put(ds.mp_prefetch(workers), jax.devices()[0]))
    print(next(iterator).shape)
