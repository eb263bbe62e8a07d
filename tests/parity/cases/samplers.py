"""Samplers: which record comes at which global index, with which generator, for every shard."""

from __future__ import annotations

from typing import Any

import grain

from ..registry import value

ShardOptions = grain.sharding.ShardOptions


def _rows(sampler: Any, count: int = 12, first: int = 0) -> list[Any]:
    rows = []
    for place in range(first, first + count):
        if place >= len(sampler):
            break
        metadata = sampler[place]
        row: list[Any] = [int(metadata.index), int(metadata.record_key)]
        if metadata.rng is not None:
            row += [int(metadata.rng.integers(0, 10**6)), float(metadata.rng.random())]
        rows.append(row)
    return rows


@value(
    over={
        f"{n}_{shuffle}_{epochs}_{seed}_{shard}": (n, shuffle, epochs, seed, shard)
        for n, shuffle, epochs, seed, shard in (
            (5, True, 2, 0, (0, 1)),
            (17, True, 2, 9, (1, 3)),
            (17, False, 1, 9, (2, 3)),
            (8, True, 1, 2**32 - 1, (0, 2)),
        )
    }
)
def index_sampler(n: int, shuffle: bool, epochs: int, seed: int, shard: tuple[int, int]) -> Any:
    sampler = grain.samplers.IndexSampler(
        num_records=n,
        num_epochs=epochs,
        shuffle=shuffle,
        seed=seed,
        shard_options=ShardOptions(shard[0], shard[1], True),
    )
    return [repr(sampler), len(sampler), _rows(sampler)]


@value
def sequential_sampler() -> Any:
    sampler = grain.samplers.SequentialSampler(
        num_records=5, shard_options=grain.sharding.NoSharding(), seed=4
    )
    rows = [
        [int(m.index), int(m.record_key), int(m.rng.integers(0, 10**6))]
        for m in (sampler[place] for place in range(5))
    ]
    return [repr(sampler), len(sampler), rows]


@value(
    over={
        f"{n}_in_{count}_shard_{index}_{'drop' if drop else 'keep'}": (n, index, count, drop)
        for n, count in ((10, 3), (9, 3), (11, 4), (3, 2), (7, 7))
        for index in sorted({0, 1, count - 1})
        for drop in (False, True)
    }
)
def index_sampler_of(n: int, index: int, count: int, drop: bool) -> Any:
    found = []
    for shuffle in (False, True):
        sampler = grain.samplers.IndexSampler(
            num_records=n,
            shard_options=ShardOptions(index, count, drop),
            shuffle=shuffle,
            num_epochs=2,
            seed=6,
        )
        found.append(
            [len(sampler), [int(sampler[place].record_key) for place in range(len(sampler))]]
        )
    return found


@value
def index_sampler_of_a_billion_records() -> Any:
    sampler = grain.samplers.IndexSampler(num_records=10**9, shuffle=True, num_epochs=None, seed=3)
    return [len(sampler), _rows(sampler), _rows(sampler, 5, 10**9 - 2), _rows(sampler, 3, 10**12)]


@value
def index_sampler_of_a_billion_records_in_order() -> Any:
    sampler = grain.samplers.IndexSampler(num_records=10**9, num_epochs=2)
    return [
        len(sampler),
        _rows(sampler, 3),
        _rows(sampler, 3, 10**9 - 1),
        _rows(sampler, 3, 2 * 10**9 - 1),
    ]


@value
def index_sampler_of_a_billion_records_sharded() -> Any:
    sampler = grain.samplers.IndexSampler(
        num_records=10**9, shard_options=ShardOptions(5, 7), shuffle=True, num_epochs=1, seed=3
    )
    return [len(sampler), _rows(sampler, 8)]


@value
def index_sampler_of_one_record() -> Any:
    sampler = grain.samplers.IndexSampler(num_records=1, shuffle=True, num_epochs=3, seed=3)
    return [len(sampler), _rows(sampler)]


@value
def index_sampler_without_end() -> Any:
    sampler = grain.samplers.IndexSampler(num_records=4, shuffle=True, seed=3)
    return [len(sampler), _rows(sampler, 10), _rows(sampler, 3, 10**6)]


@value
def index_sampler_with_the_largest_seed_over_epochs() -> Any:
    sampler = grain.samplers.IndexSampler(num_records=4, shuffle=True, num_epochs=3, seed=2**32 - 1)
    return _rows(sampler)


@value
def index_sampler_seed_without_shuffle() -> Any:
    sampler = grain.samplers.IndexSampler(num_records=4, shuffle=False, num_epochs=2, seed=5)
    return _rows(sampler)


@value
def index_sampler_reads_again_the_same() -> Any:
    sampler = grain.samplers.IndexSampler(num_records=4, shuffle=True, num_epochs=2, seed=5)
    return [_rows(sampler, 2, 3), _rows(sampler, 2, 3)]


@value
def index_sampler_with_fewer_records_than_shards() -> Any:
    lengths = []
    for index in range(3):
        sampler = grain.samplers.IndexSampler(2, ShardOptions(index, 3), num_epochs=1)
        lengths.append(len(sampler))
    return lengths


@value
def index_sampler_by_iteration() -> Any:
    sampler = grain.samplers.IndexSampler(num_records=4, shuffle=True, num_epochs=2, seed=5)
    return [[m.index, int(m.record_key)] for m in sampler]


@value(over={f"{index}_of_{count}": (index, count) for index, count in ((0, 2), (1, 2), (2, 3))})
def sequential_sampler_shard(index: int, count: int) -> Any:
    sampler = grain.samplers.SequentialSampler(
        num_records=7, shard_options=ShardOptions(index, count), seed=4
    )
    return [repr(sampler), len(sampler), _rows(sampler)]


@value
def shard_options_as_values() -> Any:
    return [
        ShardOptions(1, 3) == ShardOptions(1, 3, False),
        ShardOptions(1, 3) == ShardOptions(1, 3, True),
        grain.sharding.NoSharding().shard_count,
        grain.sharding.NoSharding().drop_remainder,
        isinstance(grain.sharding.NoSharding(), ShardOptions),
    ]


@value
def shard_by_jax_process_without_jax() -> Any:
    options = grain.sharding.ShardByJaxProcess(drop_remainder=True)
    return [options.shard_index, options.shard_count, options.drop_remainder, repr(options)]


@value
def range_source_reads() -> Any:
    up, down = grain.sources.RangeDataSource(2, 12, 3), grain.sources.RangeDataSource(12, 2, -3)
    return [[len(s), [s[i] for i in range(len(s))]] for s in (up, down)]
