"""What each process of a JAX job runs: `python orbax_job.py COORDINATOR INDEX COUNT FOLDER`.

Each trains on its shard and saves its iterators beside a model that all of them hold together.
"""

from __future__ import annotations

import contextlib
import json
import pathlib
import sys

import jax
import numpy as np
import orbax.checkpoint as ocp

import grain

LENGTH = 24
STOP = 3


def dataset(index: int, count: int) -> grain.IterDataset:
    ds = grain.MapDataset.range(LENGTH).seed(5).shuffle()[index::count].to_iter_dataset()
    return ds.window_shuffle(4, seed=1)


def loader() -> grain.DataLoader:
    return grain.DataLoader(
        data_source=list(range(LENGTH)),
        sampler=grain.samplers.IndexSampler(
            LENGTH, shard_options=grain.sharding.ShardByJaxProcess(), shuffle=True, seed=1
        ),
    )


def take(iterator, count: int) -> list[int]:
    return [int(next(iterator)) for _ in range(count)]


def main(coordinator: str, index: int, count: int, folder: pathlib.Path) -> None:
    jax.distributed.initialize(
        coordinator, num_processes=count, process_id=index, initialization_timeout=100
    )
    mesh = jax.sharding.Mesh(jax.devices(), ("data",))
    sharding = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("data"))
    weights = jax.make_array_from_process_local_data(sharding, np.full(2, float(index)))
    model = {"weights": weights}
    data, loaded = iter(dataset(index, count)), iter(loader())
    before = [take(data, STOP), take(loaded, STOP)]
    with ocp.CheckpointManager(folder / "checkpoints") as manager:
        manager.save(
            STOP,
            args=ocp.args.Composite(
                model=ocp.args.StandardSave(model),
                data=grain.checkpoint.CheckpointSave(data),
                loader=grain.checkpoint.CheckpointSave(loaded),
            ),
        )
        after = [take(data, 4), take(loaded, 4)]
        manager.wait_until_finished()
        data, loaded = iter(dataset(index, count)), iter(loader())
        restored = manager.restore(
            STOP,
            args=ocp.args.Composite(
                model=ocp.args.StandardRestore(model),
                data=grain.checkpoint.CheckpointRestore(data),
                loader=grain.checkpoint.CheckpointRestore(loaded),
            ),
        )
    again = [take(data, 4), take(loaded, 4)]
    own = [shard.data.tolist() for shard in restored["model"]["weights"].addressable_shards]
    with contextlib.suppress(ImportError):  # Older versions of Orbax have it not.
        from orbax.checkpoint.experimental import v1

        newer, fresh = (iter(dataset(index, count)) for _ in range(2))
        take(newer, STOP)
        v1.save_checkpointables(folder / "newer", {"model": model, "data": newer})
        v1.load_checkpointables(folder / "newer", {"model": model, "data": fresh})
        again.append(take(fresh, 4))
        after.append(after[0])
    # The shard of another process is another pipeline.
    refused = ""
    try:
        other = iter(dataset((index + 1) % count, count))
        grain.checkpoint.CheckpointHandler().restore(folder / f"checkpoints/{STOP}/data", other)
    except ValueError as error:
        refused = str(error)
    seen = {"before": before, "after": after, "again": again, "own": own, "refused": refused}
    (folder / f"seen_{index}.json").write_text(json.dumps(seen))
    jax.distributed.shutdown()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), pathlib.Path(sys.argv[4]))
