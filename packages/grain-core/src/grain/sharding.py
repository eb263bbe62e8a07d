"""Sharding: how a dataset is divided among the processes that train together."""

from __future__ import annotations

import dataclasses
import sys
from typing import Any

from grain.index.even_split import even_split as split_range
from grain.options import checked_int

__all__ = ["NoSharding", "ShardByJaxProcess", "ShardOptions", "even_split"]


def __dir__() -> list[str]:
    return [*__all__]


@dataclasses.dataclass(frozen=True)
class ShardOptions:
    """One shard of several.

    Attributes:
        shard_index: The index of this shard, from 0.
        shard_count: The number of shards.
        drop_remainder: Whether records that cannot be divided evenly are dropped, so that all shards
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
            # Plain integers: checkpoints compare the sampler's repr, which shows them.
            number = checked_int(name, getattr(self, name), least=-(2**63))
            object.__setattr__(self, name, number)
        if self.shard_count <= 0:
            raise ValueError(
                # Message kept from google/grain 0.2.18
                f"Number of shards must be a positive integer but got {self.shard_count}."
            )
        if not 0 <= self.shard_index < self.shard_count:
            raise ValueError(
                # Message kept from google/grain 0.2.18
                "Shard shard_index must be in [0, shard_count - 1], shard_count was "
                f"{self.shard_count} and shard_index was {self.shard_index}."
            )

    # Not the one of dataclasses, which an interrupt can leave at "...": states have this text.
    def __repr__(self) -> str:
        return (
            f"{type(self).__qualname__}(shard_index={self.shard_index!r}, "
            f"shard_count={self.shard_count!r}, drop_remainder={self.drop_remainder!r})"
        )


class NoSharding(ShardOptions):
    """The options of a process that reads all the data."""

    def __init__(self) -> None:
        super().__init__(shard_index=0, shard_count=1, drop_remainder=False)


NO_SHARDING = NoSharding()


def even_split(num_examples: int, options: ShardOptions) -> tuple[int, int]:
    """Return the first index of a shard, and the first after it.

    >>> even_split(10, ShardOptions(shard_index=1, shard_count=3))
    (4, 7)
    """
    part = split_range(
        num_examples, options.shard_index, options.shard_count, options.drop_remainder
    )
    return part.start, part.stop


def checked_shard_options(options: Any) -> ShardOptions:
    """Return `options`, or raise an error that shows what was given instead."""
    if not isinstance(options, ShardOptions):
        raise TypeError(
            f"shard_options must be a grain.sharding.ShardOptions, got {options!r} of type "
            f"{type(options).__name__}."
        )
    return options


class ShardByJaxProcess(ShardOptions):
    """The shard of this JAX process; a process without JAX is shard 0 of 1."""

    def __init__(self, drop_remainder: bool = False) -> None:
        index, count = _jax_process()
        super().__init__(shard_index=index, shard_count=count, drop_remainder=drop_remainder)


def _jax_process() -> tuple[int, int]:
    """Return the index of this JAX process and the number of processes; (0, 1) without JAX."""
    if sys.modules.get("jax", ...) is None:  # Its import is disabled.
        return 0, 1
    try:
        import jax
    except ImportError:
        return 0, 1
    return jax.process_index(), jax.process_count()
