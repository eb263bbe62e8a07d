"""Texts that stand in logs and checkpoints: of datasets, samplers, options, records."""

from __future__ import annotations

import re
from typing import Any

import grain

from ..registry import value
from .common import INLINE, AddOne, AppendDraw, IndexTimesHundred, IsEven, Iter, Map, numbers


@value
def text_of_map_datasets() -> Any:
    ds = Map.range(2, 10, 3)
    return [
        str(x)
        for x in (
            ds,
            ds.shuffle(1),
            ds.batch(2),
            ds.batch(2, drop_remainder=True),
            ds.repeat(2),
            ds.repeat(),
            ds[1:3],
            ds[::-1],
            Map.source([1, 2]),
            Map.source(grain.sources.RangeDataSource(0, 3, 1)),
        )
    ]


@value
def text_of_map_datasets_with_transform_classes() -> Any:
    ds = Map.range(10)
    return [
        str(x)
        for x in (
            ds.map(AddOne()),
            ds.random_map(AppendDraw(), seed=1),
            ds.filter(IsEven()),
        )
    ]


@value
def text_of_iter_datasets() -> Any:
    ds = numbers(10)
    return [
        str(x)
        for x in (
            ds,
            ds.map(AddOne()),
            ds.random_map(AppendDraw(), seed=1),
            ds.filter(IsEven()),
            ds.batch(3),
            ds.batch(3, drop_remainder=True),
        )
    ]


@value
def text_of_mixes() -> Any:
    parts = [Map.range(3), Map.range(4)]
    return [str(Map.mix(parts)), str(Map.mix(parts, [1, 2]))]


@value
def text_of_iterators() -> Any:
    return [str(iter(x)) for x in (numbers(3), numbers(3).map(AddOne()), numbers(3).batch(2))]


@value
def text_of_options() -> Any:
    return [
        repr(grain.ReadOptions()),
        repr(grain.ReadOptions(num_threads=2, prefetch_buffer_size=7)),
        repr(grain.MultiprocessingOptions()),
        repr(
            grain.MultiprocessingOptions(
                num_workers=2, per_worker_buffer_size=3, enable_profiling=True
            )
        ),
    ]


@value
def text_of_sharding() -> Any:
    s = grain.sharding
    return [
        repr(s.NoSharding()),
        repr(s.ShardOptions(1, 3)),
        repr(s.ShardOptions(shard_index=0, shard_count=2, drop_remainder=True)),
    ]


@value
def text_of_samplers() -> Any:
    s = grain.samplers
    return [
        repr(s.IndexSampler(num_records=5)),
        repr(s.IndexSampler(5, grain.sharding.ShardOptions(1, 2, True), True, 3, 4)),
        repr(s.IndexSampler(num_records=5, shuffle=True, seed=0, num_epochs=None)),
        repr(s.SequentialSampler(num_records=5, shard_options=grain.sharding.NoSharding())),
    ]


@value
def text_of_sampler_metadata() -> Any:
    sampler = grain.samplers.IndexSampler(num_records=3, shuffle=True, seed=0, num_epochs=2)
    return [str(metadata) for metadata in sampler]


@value
def text_of_sampler_metadata_without_seed() -> Any:
    sampler = grain.samplers.IndexSampler(num_records=3, num_epochs=1)
    return [str(metadata) for metadata in sampler]


@value
def text_of_sequential_sampler_metadata() -> Any:
    sampler = grain.samplers.SequentialSampler(
        num_records=2, shard_options=grain.sharding.NoSharding(), seed=1
    )
    return [str(metadata) for metadata in sampler]


@value
def text_of_records() -> Any:
    metadata = grain.RecordMetadata(index=3, record_key=4)
    return [
        repr(metadata),
        repr(grain.Record(metadata=metadata, data="x")),
        repr(grain.RecordMetadata(1)),
    ]


@value
def text_of_range_source() -> Any:
    return [
        repr(grain.sources.RangeDataSource(0, 10, 3)),
        repr(grain.sources.RangeDataSource(10, 0, -1)),
    ]


@value
def text_of_loader_iterator() -> Any:
    loader = grain.DataLoader(
        data_source=grain.sources.RangeDataSource(0, 3, 1),
        sampler=grain.samplers.IndexSampler(num_records=3, num_epochs=1, shuffle=True, seed=1),
        read_options=INLINE,
    )
    iterator = iter(loader)
    next(iterator)
    return [str(iterator), iterator.get_state().decode()]


@value
def constants() -> Any:
    names = ("DATASET_INDEX", "EPOCH", "INDEX", "RECORD", "RECORD_KEY", "SEED")
    return [
        [getattr(grain.constants, name) for name in names],
        sorted(grain.constants.META_FEATURES),
    ]


@value
def text_of_seeded_datasets() -> Any:
    return [str(Map.range(3).seed(7)), str(numbers(3).seed(7))]


class _ByTurns(grain.transforms.DatasetSelectionMap):
    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> tuple[int, int]:
        return index % 2, index // 2

    def __repr__(self) -> str:
        return "ByTurns()"


@value
def text_of_several_datasets_as_one() -> Any:
    parts = [Map.range(3), Map.range(4)]
    return [str(Map.concatenate(parts)), str(Map.select_from_datasets(parts, _ByTurns()))]


@value
def repr_of_mixes() -> Any:
    parts = [Map.range(3), Map.range(4)]
    mixes = (Map.mix(parts), Map.mix(parts, [0.3, 0.7]))
    return [repr(ds) for ds in (*mixes, Map.select_from_datasets(parts, _ByTurns()))]


@value
def text_of_iter_mixes() -> Any:
    parts = [numbers(3), numbers(4)]
    mixes = (Iter.mix(parts), Iter.mix(parts, [1, 1]), Iter.mix(parts, [1, 2]))
    return [[str(ds), str(iter(ds))] for ds in mixes]


@value
def text_of_map_with_index_transform() -> Any:
    # Without the number of the line where the method stands.
    return re.sub(r":\d+", "", str(Map.range(3).map_with_index(IndexTimesHundred())))


@value
def text_of_iterators_over_a_range() -> Any:
    ds = Map.range(3)
    return [str(x) for x in (ds.to_iter_dataset(), iter(ds), iter(ds.map(AddOne())))]


@value
def text_of_interleave_iterator() -> Any:
    parts = [Map.range(3), Map.range(4)]
    interleaved = [
        grain.experimental.InterleaveIterDataset(parts, cycle_length=length) for length in (1, 5)
    ]
    return [[str(ds), str(iter(ds))] for ds in interleaved]
