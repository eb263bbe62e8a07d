"""DataLoader in one process: transforms in every order, epochs, shards, own samplers, states."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import numpy as np

import grain

from ..registry import stream, value
from .common import (
    INLINE,
    THREADS,
    AddOne,
    AppendDraw,
    AppendDrawToArray,
    IsEven,
    make_pieces,
    read_twice_after_one,
)

Batch = grain.transforms.Batch
ShardOptions = grain.sharding.ShardOptions


def load(
    *operations: Any,
    n: int = 20,
    epochs: int | None = 1,
    shuffle: bool = True,
    seed: int | None = 1,
    shard: tuple[int, int, bool] = (0, 1, False),
    source: Any = None,
    **options: Any,
) -> grain.DataLoader:
    """Return a loader over 0..n-1 that reads inline by default."""
    sharding = grain.sharding.NoSharding() if shard[1] == 1 else ShardOptions(*shard)
    sampler = grain.samplers.IndexSampler(
        num_records=n, shard_options=sharding, shuffle=shuffle, num_epochs=epochs, seed=seed
    )
    given = {"sampler": sampler, "read_options": INLINE, "worker_count": 0} | options
    return grain.DataLoader(
        data_source=grain.sources.RangeDataSource(0, n, 1) if source is None else source,
        operations=list(operations),
        **given,
    )


@stream(limit=60)
def loader() -> Any:
    return load(AddOne())


@stream(limit=60)
def loader_batch() -> Any:
    return load(AddOne(), AppendDraw(), Batch(4, drop_remainder=True), epochs=2)


@stream(limit=60, steps=(0, 1, 3))
def loader_filter_batch() -> Any:
    return load(IsEven(), Batch(3), epochs=2)


@stream(
    limit=60,
    over={
        f"{index}{'_drop' if drop else ''}": (index, drop)
        for index in (0, 1, 2)
        for drop in (False, True)
    },
)
def loader_shard(index: int, drop: bool) -> Any:
    return load(AppendDraw(), n=22, shard=(index, 3, drop), epochs=2)


def _operations(code: str) -> list[Any]:
    kinds = {
        "M": lambda: AddOne(),
        "R": lambda: AppendDrawToArray(),
        "F": lambda: IsEven(),
        "X": lambda: make_pieces(),
        "B": lambda: Batch(3),
        "D": lambda: Batch(3, drop_remainder=True),
    }
    return [kinds[letter]() for letter in code]


# M map, R random map, F filter, B batch, D batch that drops its remainder.
_CHAINS = (
    "",
    "M",
    "R",
    "F",
    "B",
    "D",
    "MM",
    "MR",
    "RM",
    "RR",
    "RRR",
    "MF",
    "FM",
    "FR",
    "FF",
    "RF",
    "RFR",
    "BM",
    "BR",
    "BRR",
    "MB",
    "RB",
    "FB",
    "FD",
    "RBR",
    "RBRM",
    "FBR",
    "FRBR",
    "MFRB",
    "RMFD",
    "DB",
    "DBR",
)


@stream(limit=60, steps=(0, 1, 2, 5), over={chain or "nothing": (chain,) for chain in _CHAINS})
def loader_chain(chain: str) -> Any:
    return load(*_operations(chain), n=11, epochs=2)


# X flat map: its state is of another kind in the reference, so only the elements are recorded.
@value(
    needs="FlatMapTransform",
    over={chain: (chain,) for chain in ("X", "XM", "MX", "XF", "XB", "FX", "RX")},
)
def loader_flat_map_chain(chain: str) -> Any:
    return list(load(*_operations(chain), n=11, epochs=2))


@stream(limit=60, over={chain: (chain,) for chain in ("R", "RB", "FRB", "BR")})
def loader_chain_of_shard_1_of_3(chain: str) -> Any:
    return load(*_operations(chain), n=22, epochs=2, shard=(1, 3, False))


@stream(limit=60, over={chain: (chain,) for chain in ("R", "RB", "FRB", "BR")})
def loader_chain_of_shard_2_of_3_drop(chain: str) -> Any:
    return load(*_operations(chain), n=22, epochs=2, shard=(2, 3, True))


@stream(limit=60)
def loader_in_order() -> Any:
    return load(AppendDraw(), n=8, shuffle=False, epochs=2)


@stream(limit=60)
def loader_without_seed() -> Any:
    return load(AddOne(), n=8, shuffle=False, seed=None, epochs=2)


@stream(limit=30)
def loader_without_end() -> Any:
    return load(AppendDraw(), Batch(4), n=6, epochs=None)


@stream(limit=60, steps=(0, 1, 9))
def loader_with_threads() -> Any:
    return load(AppendDraw(), n=40, epochs=2, read_options=THREADS)


@stream(limit=60)
def loader_three_epochs_of_batches() -> Any:
    return load(Batch(4), n=10, epochs=3)


@stream(limit=60)
def loader_batch_with_its_own_function() -> Any:
    def describe(elements: Any) -> list[Any]:
        return [type(elements).__name__, list(elements)]

    return load(AddOne(), Batch(4, batch_fn=describe), n=10)


@stream(limit=60)
def loader_with_trees() -> Any:
    source = [{"x": np.full(2, i, np.float32), "name": f"n{i}"} for i in range(7)]
    return load(Batch(3), n=7, source=source, epochs=2)


@stream(limit=60)
def loader_over_a_list() -> Any:
    return load(n=5, source=list("abcde"))


@stream(limit=60)
def loader_with_fewer_records_than_the_source() -> Any:
    return load(n=4, source=list("abcdefgh"), epochs=2)


class _Letters(grain.sources.RandomAccessDataSource):
    def __len__(self) -> int:
        return 6

    def __getitem__(self, record_key: Any) -> str:
        return "abcdef"[record_key]

    def __repr__(self) -> str:
        return "Letters()"


@stream(limit=60)
def loader_over_a_source_of_ones_own() -> Any:
    return load(n=6, source=_Letters(), epochs=2)


@dataclasses.dataclass(frozen=True)
class _EverySeventh:
    """A user's sampler: global indices only, its own generators."""

    count: int
    draws: bool = True

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> grain.RecordMetadata:
        if index >= self.count:
            raise IndexError(index)
        rng = np.random.default_rng(index) if self.draws else None
        return grain.RecordMetadata(index=index, record_key=index * 7 % 5, rng=rng)


@stream(limit=60)
def loader_with_a_sampler_of_ones_own() -> Any:
    return load(AppendDraw(), sampler=_EverySeventh(12), shard_options=grain.sharding.NoSharding())


@stream(limit=60)
def loader_with_a_sampler_of_ones_own_without_draws() -> Any:
    return load(
        AddOne(),
        Batch(3),
        sampler=_EverySeventh(10, False),
        shard_options=grain.sharding.NoSharding(),
    )


@stream(limit=60, over={"0": (0,), "1": (1,)})
def loader_with_a_sampler_of_ones_own_sharded(index: int) -> Any:
    return load(AppendDraw(), sampler=_EverySeventh(13), shard_options=ShardOptions(index, 2))


@stream(limit=60)
def loader_with_a_sequential_sampler() -> Any:
    sampler = grain.samplers.SequentialSampler(
        num_records=7, shard_options=grain.sharding.NoSharding(), seed=3
    )
    return load(AppendDraw(), n=7, sampler=sampler)


@stream(limit=60)
def loader_with_a_sharded_sequential_sampler() -> Any:
    sampler = grain.samplers.SequentialSampler(
        num_records=7, shard_options=ShardOptions(1, 2), seed=3
    )
    return load(AppendDraw(), n=7, sampler=sampler)


@stream(limit=60)
def loader_own_shard_options_beat_the_samplers() -> Any:
    return load(AddOne(), n=9, shard=(1, 2, False), shard_options=ShardOptions(0, 2), epochs=2)


@stream(limit=60)
def load_function() -> Any:
    return grain.load(
        grain.sources.RangeDataSource(0, 10, 1),
        num_epochs=2,
        shuffle=True,
        seed=3,
        transformations=[AddOne(), AppendDraw()],
        batch_size=4,
        read_options=INLINE,
    )


@stream(limit=60)
def load_function_drop_remainder_and_shard() -> Any:
    return grain.load(
        grain.sources.RangeDataSource(0, 21, 1),
        num_epochs=1,
        shuffle=True,
        seed=3,
        shard_options=ShardOptions(1, 2),
        batch_size=4,
        drop_remainder=True,
        read_options=INLINE,
    )


@stream(limit=12)
def load_function_without_end() -> Any:
    return grain.load(grain.sources.RangeDataSource(0, 5, 1), read_options=INLINE)


@stream(limit=60)
def load_function_with_batch_among_the_transforms() -> Any:
    return grain.load(
        grain.sources.RangeDataSource(0, 9, 1),
        num_epochs=1,
        seed=2,
        transformations=[Batch(2), AddOne()],
        read_options=INLINE,
    )


@value
def loader_end_and_state_after_it() -> Any:
    iterator = iter(load(n=3))
    return [list(iterator), iterator.get_state().decode(), list(iterator)]


@value
def loader_goes_back() -> Any:
    return read_twice_after_one(load(AppendDraw(), Batch(2), n=7))


@value
def loader_twice() -> Any:
    twice = load(AppendDraw(), n=5)
    return [list(twice), list(twice)]


@value
def loader_options() -> Any:
    made = load(n=5, worker_buffer_size=3)
    return [repr(made.multiprocessing_options)]


@value(
    over={
        "list": ([1, 2],),
        "tuple": ((1, 2),),
        "array": (np.arange(2),),
        "str": ("ab",),
        "bytes": (b"ab",),
        "dict": ({0: 1, 1: 2},),
        "range": (range(2),),
    }
)
def loader_state_names_the_source(source: Any) -> Any:
    loader = grain.load(source, num_epochs=1, read_options=INLINE)
    return json.loads(iter(loader).get_state())["data_source"]
