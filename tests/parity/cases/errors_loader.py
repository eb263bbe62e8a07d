"""Wrong calls of options, samplers and loaders; see `errors` for what is compared."""

from __future__ import annotations

from typing import Any

import grain

from ..registry import error
from .common import AddOne, AppendDraw
from .loader import load

IndexSampler = grain.samplers.IndexSampler
ShardOptions = grain.sharding.ShardOptions


# options


@error(over={"threads": (-1, 0), "buffer": (0, -1)})
def error_read_options_negative(num_threads: int, prefetch_buffer_size: int) -> Any:
    return grain.ReadOptions(num_threads=num_threads, prefetch_buffer_size=prefetch_buffer_size)


@error(
    over={
        "index_too_large": (2, 2),
        "index_negative": (-1, 2),
        "no_shards": (0, 0),
        "negative_shards": (0, -2),
    }
)
def error_shard_options(index: int, count: int) -> Any:
    return ShardOptions(index, count)


# samplers and loaders


@error(over={"zero": (0,), "negative": (-1,)})
def error_index_sampler_records(num_records: int) -> Any:
    return IndexSampler(num_records)


@error(type_only=True, over={"zero": (0,), "negative": (-2,)})
def error_index_sampler_epochs(num_epochs: int) -> Any:
    return IndexSampler(3, num_epochs=num_epochs)


@error
def error_index_sampler_shuffle_without_seed() -> Any:
    return IndexSampler(3, shuffle=True)


@error(over={"negative": (-1,), "too_large": (2**32,)})
def error_index_sampler_seed(seed: int) -> Any:
    return IndexSampler(3, shuffle=True, seed=seed)


@error(type_only=True, over={"past": (3,), "negative": (-1,)})
def error_index_sampler_read(index: int) -> Any:
    return IndexSampler(3, num_epochs=1)[index]


@error(type_only=True, over={"past": (3,), "negative": (-1,)})
def error_sequential_sampler_read(index: int) -> Any:
    return grain.samplers.SequentialSampler(3)[index]


@error(over={"past": (4,), "negative": (-1,)})
def error_range_source_read(index: int) -> Any:
    return grain.sources.RangeDataSource(0, 10, 3)[index]


@error(type_only=True)
def error_loader_worker_count() -> Any:
    return load(worker_count=-1)


@error
def error_loader_with_own_sampler_needs_shard_options() -> Any:
    class Own:
        def __len__(self) -> int:
            return 3

        def __getitem__(self, index: int) -> grain.RecordMetadata:
            return grain.RecordMetadata(index=index, record_key=index)

    return load(sampler=Own())


@error(type_only=True)
def error_loader_operation() -> Any:
    return list(load(3, n=3))


@error(type_only=True)
def error_loader_random_map_without_seed() -> Any:
    return list(load(AppendDraw(), n=3, shuffle=False, seed=None))


@error
def error_loader_state_of_another_sampler() -> Any:
    letters = list("abcdefghi")
    other = iter(load(n=6, source=letters)).get_state()
    return iter(load(n=5, source=letters)).set_state(other)


@error
def error_loader_state_of_another_source() -> Any:
    other = iter(load(n=5, source=grain.sources.RangeDataSource(0, 9, 1))).get_state()
    return iter(load(n=5)).set_state(other)


@error(type_only=True)
def error_loader_state_is_no_json() -> Any:
    return iter(load(n=5)).set_state(b"nonsense")


@error(type_only=True)
def error_loader_state_is_empty() -> Any:
    return iter(load(n=5)).set_state(b"{}")


@error(type_only=True)
def error_length_of_loader() -> Any:
    return len(load(n=4))


@error(type_only=True)
def error_batch_of_different_lengths_in_the_loader() -> Any:
    return list(load(grain.transforms.Batch(2), grain.transforms.Batch(2), n=7))


@error
def error_in_users_transform_in_the_loader() -> Any:
    class Broken(grain.transforms.Map):
        def map(self, element: Any) -> Any:
            raise LookupError(f"cannot map {element}")

    return list(load(AddOne(), Broken(), n=3, shuffle=False))
