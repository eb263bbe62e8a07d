"""The older operations of `grain.python`, which work on records, and own callables like them."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from typing import Any

import numpy as np

import grain
import grain.python as legacy

from ..registry import stream, value
from .common import AddOne, AppendDraw, IsEven, add_one, append_draw, count_and_sum, is_even
from .loader import load


@stream(limit=30)
def legacy_map() -> Any:
    return load(legacy.MapOperation(map_function=add_one), n=8, epochs=2)


@stream(limit=30, steps=(0, 1, 3))
def legacy_filter() -> Any:
    return load(legacy.FilterOperation(condition_function=is_even), n=8, epochs=2)


@stream(limit=30)
def legacy_random_map() -> Any:
    return load(legacy.RandomMapOperation(random_map_function=append_draw), n=8, epochs=2)


@stream(limit=30)
def legacy_two_random_maps() -> Any:
    operation = legacy.RandomMapOperation(append_draw)
    return load(operation, operation, n=6, epochs=2)


@stream(limit=30, over={"keep": (False,), "drop": (True,)})
def legacy_batch(drop: bool) -> Any:
    return load(legacy.BatchOperation(batch_size=3, drop_remainder=drop), n=8, epochs=2)


@stream(limit=30)
def legacy_batch_with_its_own_function() -> Any:
    return load(legacy.BatchOperation(3, batch_fn=count_and_sum), n=8)


@stream(limit=30)
def legacy_map_after_batch() -> Any:
    return load(legacy.BatchOperation(3), legacy.MapOperation(add_one), n=8)


@stream(limit=30)
def legacy_chain() -> Any:
    return load(
        legacy.MapOperation(add_one),
        legacy.FilterOperation(is_even),
        legacy.RandomMapOperation(append_draw),
        legacy.BatchOperation(2),
        n=11,
        epochs=2,
    )


@stream(limit=30)
def legacy_and_new_together() -> Any:
    return load(
        legacy.MapOperation(add_one),
        AddOne(),
        legacy.FilterOperation(is_even),
        AppendDraw(),
        grain.transforms.Batch(2),
        n=11,
    )


@stream(limit=30)
def legacy_new_then_legacy_batch() -> Any:
    return load(AddOne(), IsEven(), AppendDraw(), legacy.BatchOperation(2), n=11)


@dataclasses.dataclass(frozen=True)
class _TimesTen:
    def __call__(self, records: Iterator[grain.Record]) -> Iterator[grain.Record]:
        for record in records:
            yield grain.Record(metadata=record.metadata, data=record.data * 10)


@dataclasses.dataclass(frozen=True)
class _Twice:
    """Gives each record two times, the second time without its record key."""

    def __call__(self, records: Iterator[grain.Record]) -> Iterator[grain.Record]:
        for record in records:
            yield record
            yield grain.Record(metadata=record.metadata.remove_record_key(), data=-record.data)


@dataclasses.dataclass(frozen=True)
class _EveryThird:
    def __call__(self, records: Iterator[grain.Record]) -> Iterator[grain.Record]:
        for record in records:
            if record.metadata.index % 3 == 0:
                yield record


@dataclasses.dataclass(frozen=True)
class _ShowMetadata:
    def __call__(self, records: Iterator[grain.Record]) -> Iterator[grain.Record]:
        for record in records:
            m = record.metadata
            shown = [
                int(m.index),
                None if m.record_key is None else int(m.record_key),
                m.rng is not None,
            ]
            yield grain.Record(metadata=m, data=[shown, record.data])


@stream(limit=30)
def legacy_operation_of_ones_own() -> Any:
    return load(_TimesTen(), n=6, epochs=2)


@stream(limit=30)
def legacy_operation_that_drops() -> Any:
    return load(_EveryThird(), n=10, epochs=2)


@value
def legacy_operation_that_doubles() -> Any:
    return list(load(_Twice(), n=4))


@stream(limit=30)
def legacy_operation_between_transforms() -> Any:
    return load(AddOne(), _TimesTen(), AppendDraw(), grain.transforms.Batch(3), n=8)


@value
def legacy_metadata_after_reading() -> Any:
    return list(load(_ShowMetadata(), n=4))


@value
def legacy_metadata_after_random_map() -> Any:
    return list(load(AppendDraw(), _ShowMetadata(), n=4))


@value
def legacy_metadata_after_batch() -> Any:
    def as_list(elements: Any) -> list[Any]:
        return list(elements)

    return list(load(grain.transforms.Batch(2, batch_fn=as_list), _ShowMetadata(), n=5))


@value
def legacy_operations_are_iterable_functions() -> Any:
    records = [
        grain.Record(grain.RecordMetadata(index=i, record_key=i, rng=np.random.default_rng(i)), i)
        for i in range(5)
    ]
    found = []
    for operation in (
        legacy.MapOperation(add_one),
        legacy.FilterOperation(is_even),
        legacy.RandomMapOperation(append_draw),
    ):
        found.append([[r.metadata.index, r.data] for r in operation(iter(records))])
    return found


@value
def legacy_batch_operation_called_directly() -> Any:
    records = [grain.Record(grain.RecordMetadata(index=i, record_key=i), i) for i in range(5)]
    return [
        [r.metadata.index, r.metadata.record_key, r.data]
        for r in legacy.BatchOperation(2)(iter(records))
    ]


@value
def record_metadata_without_key() -> Any:
    return grain.RecordMetadata(index=3, record_key=4).remove_record_key()


@value
def legacy_names_are_the_new_ones() -> Any:
    pairs = [
        (legacy.MapTransform, grain.transforms.Map),
        (legacy.RandomMapTransform, grain.transforms.RandomMap),
        (legacy.FilterTransform, grain.transforms.Filter),
        (legacy.MapWithIndexTransform, grain.transforms.MapWithIndex),
        (legacy.Batch, grain.transforms.Batch),
        (legacy.DataLoader, grain.DataLoader),
        (legacy.MapDataset, grain.MapDataset),
        (legacy.IterDataset, grain.IterDataset),
        (legacy.DatasetIterator, grain.DatasetIterator),
        (legacy.PyGrainDatasetIterator, grain.DataLoaderIterator),
        (legacy.IndexSampler, grain.samplers.IndexSampler),
        (legacy.ReadOptions, grain.ReadOptions),
        (legacy.ShardOptions, grain.sharding.ShardOptions),
        (legacy.Record, grain.Record),
        (legacy.RangeDataSource, grain.sources.RangeDataSource),
        (legacy.load, grain.load),
    ]
    return [old is new for old, new in pairs]


@stream(
    limit=10,
    over={
        "map": (legacy.MapOperation(add_one),),
        "random_map": (legacy.RandomMapOperation(append_draw),),
        "filter": (legacy.FilterOperation(is_even),),
        "batch": (legacy.BatchOperation(2),),
    },
)
def legacy_record_key_after(operation: Any) -> Any:
    return load(operation, _ShowMetadata(), n=5)


@value
def legacy_state_after_an_error() -> Any:
    def fail_at_two(x: int) -> int:
        if x == 2:
            raise ValueError(x)
        return x

    iterator = iter(load(legacy.MapOperation(fail_at_two), n=6, shuffle=False))
    found: list[Any] = []
    for _ in range(4):
        try:
            found.append(next(iterator))
        except (ValueError, StopIteration) as error:
            found.append(type(error).__name__)
        found.append(json.loads(iterator.get_state())["last_seen_indices"])
    return found
