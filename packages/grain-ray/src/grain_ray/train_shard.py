"""The shard of a Ray Train worker."""

from __future__ import annotations

from grain.sharding import ShardOptions


class ShardByRayTrain(ShardOptions):
    """The shard of this Ray Train worker: its rank of the world's size.

    Args:
        drop_remainder: Whether records that cannot be divided evenly are dropped.
    """

    def __init__(self, drop_remainder: bool = False) -> None:
        rank, size = _train_worker()
        super().__init__(shard_index=rank, shard_count=size, drop_remainder=drop_remainder)


def _train_worker() -> tuple[int, int]:
    """Return the rank of this worker and the number of workers."""
    import ray.train

    try:
        context = ray.train.get_context()
        rank, size = context.get_world_rank(), context.get_world_size()
    except Exception as error:
        raise RuntimeError(
            "ShardByRayTrain needs a training function that Ray Train runs, and this is not one "
            f"({error}). Create it inside of `train_loop_per_worker`, or pass "
            "grain.sharding.ShardOptions(shard_index, shard_count)."
        ) from error
    if rank is None or size is None:
        raise RuntimeError(
            "ShardByRayTrain needs a training function that Ray Train runs, and this is not one: there is "
            "no rank. Create it inside of `train_loop_per_worker`, or pass "
            "grain.sharding.ShardOptions(shard_index, shard_count)."
        )
    return int(rank), int(size)
