"""One process of a real `jax.distributed` job; writes what it saw as a line of JSON."""

from __future__ import annotations

import json
import sys
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P

import grain
from grain.experimental import get_element_spec, to_mesh


def row(i: int) -> Any:
    return np.full(6, i, np.float32)


def main(address: str, processes: int, number: int) -> None:
    # Newer versions of JAX choose it by themselves.
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    jax.distributed.initialize(address, processes, number)
    devices = np.array(jax.devices())
    mesh = Mesh(devices.reshape(4, 2), ("data", "model"))
    gather = jax.jit(lambda x: x, out_shardings=jax.sharding.NamedSharding(mesh, P()))
    total = jax.jit(lambda x: x[:, 0].sum(), out_shardings=jax.sharding.NamedSharding(mesh, P()))

    def rows(element: Any) -> list[int]:
        return [int(value) for value in np.asarray(gather(element))[:, 0]]

    shard = grain.MapDataset.range(32)[jax.process_index() :: processes].map(row)
    ds = to_mesh(shard.batch(4).to_iter_dataset(), mesh, P("data", "model"))
    seen: dict[str, Any] = {"process": jax.process_index(), "shapes": [], "sums": []}
    seen["batches"] = []
    for element in ds:
        seen["shapes"].append(element.shape)
        seen["sums"].append(int(total(element)))
        seen["batches"].append(rows(element))

    iterator = iter(ds)
    next(iterator)
    next(iterator)
    seen["state"] = iterator.get_state()
    iterator = iter(ds)
    iterator.set_state(seen["state"])
    seen["resumed"] = [rows(element) for element in iterator]

    source = grain.MapDataset.source(np.zeros((32, 6), np.float32))
    whole = source.batch(4, drop_remainder=True).to_iter_dataset()
    seen["spec"] = get_element_spec(to_mesh(whole, mesh, P("data"))).shape
    across = Mesh(devices.reshape(2, 4).T, ("model", "data"))
    seen["wide"] = next(iter(to_mesh(whole, across, P(None, "data")))).shape

    seen["undivided"] = error_of(to_mesh(shard.batch(3).to_iter_dataset(), mesh, P("data")))
    first = Mesh(devices[:4], ("data",))
    seen["outside"] = error_of(to_mesh(whole, first, P("data")))
    print(json.dumps(seen), flush=True)


def error_of(ds: Any) -> str:
    try:
        next(iter(ds))
    except ValueError as error:
        return str(error)
    return "nothing wrong"


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
