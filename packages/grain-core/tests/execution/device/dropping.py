"""Ends right after iterators were dropped whose threads are still putting elements on the device."""

from __future__ import annotations

import jax
import numpy as np

import grain

if __name__ == "__main__":
    rows = grain.MapDataset.range(100_000).map(lambda i: np.full((64, 1024), i, np.float32))
    ds = grain.experimental.device_put(
        rows.to_iter_dataset(), jax.devices()[0], cpu_buffer_size=64, device_buffer_size=64
    )
    for _ in range(4):
        next(iter(ds))
    print("ends")
