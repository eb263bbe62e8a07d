"""What each process of a JAX job runs: `python job.py COORDINATOR INDEX COUNT FOLDER`.

It writes what it saw into a file of the folder, for the test that started the job to look at.
"""

from __future__ import annotations

import json
import pathlib
import pickle
import sys
from typing import Any

import grain
from grain.checkpoint import CheckpointHandler
from grain.experimental import ElasticIterator, Remainder

LENGTH = 29
EVEN = 28  # So many records can be divided by 2 and by 4.
GLOBAL_BATCH = 4
STOP = 2  # The step after which a checkpoint is taken.


def records() -> list[int]:
    return list(range(1, LENGTH + 1))


def numbers() -> grain.MapDataset[Any]:
    return grain.MapDataset.source(records()).seed(7).shuffle().map(lambda x: {"x": x})


def filtered() -> grain.IterDataset[Any]:
    return numbers().filter(lambda e: e["x"] % 5).to_iter_dataset().map(lambda e: {"x": e["x"] * 3})


def main(coordinator: str, index: int, count: int, folder: pathlib.Path) -> None:
    import jax
    from jax.experimental import multihost_utils

    jax.distributed.initialize(
        coordinator, num_processes=count, process_id=index, initialization_timeout=200
    )
    shard = grain.sharding.ShardByJaxProcess()
    # In a worker, which is in no job itself, it is still the shard of this process.
    sent = pickle.loads(pickle.dumps(shard))
    seen: dict[str, Any] = {
        "shard": [shard.shard_index, shard.shard_count],
        "sent": [sent.shard_index, sent.shard_count],
        "sliced": [e["x"] for e in numbers()[shard.shard_index :: shard.shard_count]],
        "loaded": list(grain.load(records(), shard_options=shard, num_epochs=1)),
        "loaded whole": list(grain.load(records()[:EVEN], shard_options=shard, num_epochs=1)),
    }

    def gathered(value: Any) -> Any:
        """What all processes have, by collective communication: it needs all of them to take part."""
        return multihost_utils.process_allgather(value)

    per_host = GLOBAL_BATCH // count
    for policy in Remainder:
        batches = numbers().shard_batches(shard, per_host, remainder=policy.value)
        iterator = iter(batches.to_iter_dataset())
        steps = []
        for batch in iterator:
            # All processes must take part in this: it hangs where one of them has no such step.
            assert gathered(len(steps)).tolist() == [len(steps)] * count
            steps.append({name: column.tolist() for name, column in batch.items()})
        seen[policy.value] = steps

    for name, make in (
        ("by index", lambda: iter(numbers().shard_batches(shard, per_host).to_iter_dataset())),
        ("elastic", lambda: ElasticIterator(filtered(), GLOBAL_BATCH, shard, remainder="keep")),
    ):
        iterator = make()
        before = [next(iterator)["x"].tolist() for _ in range(STOP)]
        target = folder / name
        target.mkdir(exist_ok=True)
        CheckpointHandler().save(target, iterator)
        multihost_utils.sync_global_devices(name)
        after = [batch["x"].tolist() for batch in iterator]
        again = make()
        CheckpointHandler().restore(target, again)
        restored = [batch["x"].tolist() for batch in again]
        seen[name] = {"before": before, "after": after, "restored": restored}
        multihost_utils.sync_global_devices(f"{name} again")

    resumed = ElasticIterator(filtered(), GLOBAL_BATCH, shard, remainder="keep")
    CheckpointHandler().restore(folder / "of others", resumed)
    seen["resumed"] = [batch["x"].tolist() for batch in resumed]
    (folder / f"seen_{index}.json").write_text(json.dumps(seen))
    jax.distributed.shutdown()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), pathlib.Path(sys.argv[4]))
