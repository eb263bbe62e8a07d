"""How a dataset is divided among the processes that train together."""

from __future__ import annotations

import dataclasses
import sys
from typing import Any

from grain.options import checked_int


@dataclasses.dataclass(frozen=True)
class ShardOptions:
    """One shard of several.

    Attributes:
      shard_index: which shard this is, from 0.
      shard_count: how many shards there are.
      drop_remainder: whether records that cannot be divided evenly are left out, so that all shards
        are equally long; otherwise the first shards get one record more.

    >>> import grain
    >>> shards = [ShardOptions(shard_index=i, shard_count=2) for i in range(2)]
    >>> [list(grain.load("abcd", shard_options=shard, num_epochs=1)) for shard in shards]
    [['a', 'b'], ['c', 'd']]
    """

    shard_index: int
    shard_count: int
    drop_remainder: bool = False

    def __post_init__(self) -> None:
        for name in ("shard_index", "shard_count"):
            # As Python's own integers: a sampler's repr, which checkpoints compare, shows them.
            number = checked_int(name, getattr(self, name), least=-(2**63))
            object.__setattr__(self, name, number)
        if self.shard_count <= 0:
            raise ValueError(
                f"Number of shards must be a positive integer but got {self.shard_count}."
            )
        if not 0 <= self.shard_index < self.shard_count:
            raise ValueError(
                "Shard shard_index must be in [0, shard_count - 1], shard_count was "
                f"{self.shard_count} and shard_index was {self.shard_index}."
            )


class NoSharding(ShardOptions):
    """Every process reads all the data."""

    def __init__(self) -> None:
        super().__init__(shard_index=0, shard_count=1, drop_remainder=False)


NO_SHARDING = NoSharding()


def checked_shard_options(options: Any) -> ShardOptions:
    """Returns `options`, or raises an error that shows what was given instead."""
    if not isinstance(options, ShardOptions):
        raise TypeError(
            f"shard_options must be a grain.sharding.ShardOptions, got {options!r} of type "
            f"{type(options).__name__}."
        )
    return options


class ShardByJaxProcess(ShardOptions):
    """Each JAX process reads a shard of its own; one process without JAX is shard 0 of 1."""

    def __init__(self, drop_remainder: bool = False) -> None:
        index, count = _jax_process()
        super().__init__(shard_index=index, shard_count=count, drop_remainder=drop_remainder)


def _jax_process() -> tuple[int, int]:
    """(index, count) of this JAX process; JAX is asked when it is installed."""
    if sys.modules.get("jax", ...) is None:  # Importing it has been forbidden.
        return 0, 1
    try:
        import jax
    except ImportError:
        return 0, 1
    return jax.process_index(), jax.process_count()
