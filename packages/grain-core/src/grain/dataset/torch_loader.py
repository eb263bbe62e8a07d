"""Streams in a `DataLoader` of torch, without importing torch.

torch reads a dataset as a stream if it is an instance of its abstract class `IterableDataset`. A class of
streams is registered there when it is defined after torch was imported.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

# Returns the worker of torch that runs this process; None while no class is registered.
get_worker_info: Callable[[], Any] | None = None


def register_with_torch(kind: type) -> None:
    """Make torch read datasets of a class, and of all that derive from it, as streams."""
    global get_worker_info
    torch_data = sys.modules.get("torch.utils.data")
    # Partly imported modules have no such names yet.
    base = getattr(torch_data, "IterableDataset", None)
    worker_info = getattr(torch_data, "get_worker_info", None)
    if get_worker_info is None and base is not None and worker_info is not None:
        base.register(kind)
        get_worker_info = worker_info


def check_torch_worker(dataset: Any) -> None:
    """Refuse to let several workers of torch read all elements of one dataset each."""
    info = get_worker_info() if get_worker_info is not None else None
    # A user's dataset that reads from this one may select the share of its worker.
    if info is not None and info.num_workers > 1 and info.dataset is dataset:
        raise RuntimeError(
            f"DataLoader(num_workers={info.num_workers}) of torch: each of its workers would read all "
            "elements of this dataset. Expected num_workers=0, and the workers in the dataset: "
            f"DataLoader(ds.mp_prefetch(num_workers={info.num_workers}), batch_size=None)."
        )
