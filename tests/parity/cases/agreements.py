"""Smaller agreements: samplers that drop, mixed batches, specs, arguments of any iterable kind, wording."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

import grain
import grain.python

from ..registry import error, stream, value
from .common import INLINE, Map, add_one, make_pieces, numbers


@value(
    over={f"{shard}_of_{count}": (shard, count) for count in (1, 2, 3) for shard in range(count)}
)
def sequential_sampler_that_drops(shard: int, count: int) -> Any:
    options = grain.sharding.ShardOptions(shard, count, drop_remainder=True)
    sampler = grain.samplers.SequentialSampler(5, options)
    return [len(sampler), [record.record_key for record in sampler]]


@error
def error_sequential_sampler_beyond_its_end() -> Any:
    options = grain.sharding.ShardOptions(1, 2, drop_remainder=True)
    return grain.samplers.SequentialSampler(5, options)[4]


@error(over={"6": (6,), "minus_1": (-1,)})
def error_index_shuffle_index(index: int) -> Any:
    return grain.experimental.index_shuffle(index, max_index=5, seed=1, rounds=4)


@error(over={str(rounds): (rounds,) for rounds in (0, 1, 3, 2, 1026, 10**6)})
def error_index_shuffle_rounds(rounds: int) -> Any:
    return grain.experimental.index_shuffle(1, max_index=5, seed=1, rounds=rounds)


@stream(steps=(0,))
def batch_of_an_array_and_a_list() -> Any:
    elements = [np.array([4, 5, 6]), [1, 2, 3], np.array([0.5, 1, 2]), (7, 8, 9)]
    return Map.source(elements).batch(2).to_iter_dataset(INLINE)


@error
def error_batch_after_flat_map() -> Any:
    return grain.experimental.FlatMapMapDataset(Map.range(3), make_pieces()).batch(2)


@error
def error_batch_after_flat_map_and_map() -> Any:
    return grain.experimental.FlatMapMapDataset(Map.range(3), make_pieces()).map(add_one).batch(2)


@stream(steps=(0, 2))
def zip_of_a_generator() -> Any:
    parts = (Map.range(n, n + 3) for n in (0, 10))
    return grain.experimental.ZipMapDataset(parts).to_iter_dataset(INLINE)


@stream(steps=(0, 2))
def zip_iter_of_a_generator() -> Any:
    return grain.experimental.ZipIterDataset(numbers(n, n + 3) for n in (0, 10))


@value
def loader_with_an_iterator_of_operations() -> Any:
    loader = grain.DataLoader(
        data_source=[1, 2, 3],
        sampler=grain.samplers.SequentialSampler(3),
        operations=iter([grain.python.MapOperation(add_one)]),
    )
    return list(loader)


class _Row(grain.transforms.Map):
    def map(self, element: Any) -> Any:
        return np.zeros(3, np.float32)

    def output_spec(self, input_spec: Any) -> Any:
        return grain.experimental.ShapeDtypeStruct(shape=(3,), dtype=np.dtype(np.float32))


class _Stack:
    def __call__(self, elements: Any) -> Any:
        return np.stack(elements)

    def output_spec(self, input_spec: Any, batch_size: int, drop_remainder: bool) -> Any:
        return dataclasses.replace(input_spec, shape=(batch_size, int(drop_remainder)))


def _shape(ds: Any) -> Any:
    spec = grain.experimental.get_element_spec(ds)
    return [list(spec.shape), np.dtype(spec.dtype).name]


@value(over={"dropping": (True,), "keeping": (False,)})
def spec_of_a_rebatched_dataset(drop: bool) -> Any:
    batches = Map.range(8).map(_Row()).batch(2, drop_remainder=drop).to_iter_dataset()
    return _shape(grain.experimental.RebatchIterDataset(batches, batch_size=4, drop_remainder=drop))


@value(over={"dropping": (True,), "keeping": (False,)})
def spec_through_a_batch_function(drop: bool) -> Any:
    rows = Map.range(8).map(_Row())
    batches = [rows, rows.to_iter_dataset()]
    return [_shape(ds.batch(2, drop_remainder=drop, batch_fn=_Stack())) for ds in batches]


@value
def fields_of_a_shape_dtype_struct() -> Any:
    return [field.name for field in dataclasses.fields(grain.experimental.ShapeDtypeStruct)]


@value
def assigned_performance_config() -> Any:
    config = grain.experimental.PerformanceConfig()
    config.read_options = grain.ReadOptions(num_threads=3)
    return config.read_options.num_threads


@value
def legacy_operations_are_generic() -> Any:
    two = [grain.python.MapOperation, grain.python.RandomMapOperation, grain.python.BatchOperation]
    names = [operation[int, str].__origin__.__name__ for operation in two]
    return [*names, grain.python.FilterOperation[int].__origin__.__name__]
