"""Order of elements: shuffle, slice, repeat, concatenate, and combinations over several epochs."""

from __future__ import annotations

from typing import Any

import grain

from ..registry import stream, value
from .common import INLINE, THREADS, Map, add_one


@stream(limit=400, over={str(n): (n,) for n in (1, 2, 3, 10, 100, 1000)})
def shuffle(n: int) -> Any:
    return Map.range(n).shuffle(42).to_iter_dataset(INLINE)


@stream(limit=60)
def shuffle_epochs() -> Any:
    return Map.range(13).shuffle(3).repeat(4).to_iter_dataset(INLINE)


@stream(limit=60)
def shuffle_noreseed() -> Any:
    return Map.range(13).shuffle(3).repeat(3, reseed_each_epoch=False).to_iter_dataset(INLINE)


@stream(limit=60)
def shuffle_slice_repeat() -> Any:
    return Map.range(20).shuffle(5)[3:15:2].repeat(3).to_iter_dataset(INLINE)


@stream(limit=60)
def seed_shuffle() -> Any:
    return Map.range(50).seed(11).shuffle().to_iter_dataset(INLINE)


@stream(limit=60)
def seed_map_shuffle() -> Any:
    return Map.range(50).seed(11).map(add_one).shuffle().to_iter_dataset(INLINE)


@stream(steps=(0, 1, 37))
def threads() -> Any:
    return Map.range(100).shuffle(8).map(add_one).to_iter_dataset(THREADS)


@stream(limit=60, over={"largest_seed": (2**32 - 1,), "seed_zero": (0,), "seed_2_31": (2**31,)})
def shuffle_epochs_wrap_the_seed(seed: int) -> Any:
    return Map.range(9).shuffle(seed).repeat(4).to_iter_dataset(INLINE)


@stream(limit=60)
def shuffle_of_a_shuffle() -> Any:
    return Map.range(11).shuffle(1).shuffle(2).repeat(2).to_iter_dataset(INLINE)


@stream(
    limit=40, over={str(n): (n,) for n in (15, 16, 17, 255, 256, 257, 65535, 65536, 70000, 10**6)}
)
def shuffle_large(n: int) -> Any:
    return Map.range(n).shuffle(7).to_iter_dataset(INLINE)


@stream(limit=60)
def shuffle_between_repeats() -> Any:
    return Map.range(5).repeat(2).shuffle(3).repeat(2).to_iter_dataset(INLINE)


@stream(limit=60)
def shuffle_of_concatenation_with_epochs() -> Any:
    parts = [Map.range(4).shuffle(1), Map.range(100, 105)]
    return Map.concatenate(parts).shuffle(9).repeat(3).to_iter_dataset(INLINE)


@stream(
    limit=40,
    over={
        "plain": (slice(2, 8),),
        "open_start": (slice(None, 4),),
        "open_stop": (slice(5, None),),
        "everything": (slice(None),),
        "step_three": (slice(None, None, 3),),
        "offset_step": (slice(1, None, 4),),
        "negative_bounds": (slice(-7, -2),),
        "past_the_end": (slice(3, 1000),),
        "reversed": (slice(None, None, -1),),
        "backwards_by_two": (slice(8, 2, -2),),
        "one_element": (slice(4, 5),),
        "empty": (slice(5, 5),),
        "empty_backwards": (slice(2, 8, -1),),
    },
)
def slice_of_shuffle(sl: slice) -> Any:
    return Map.range(11).shuffle(4)[sl].repeat(2).to_iter_dataset(INLINE)


@stream(limit=40)
def slice_of_slice() -> Any:
    return Map.range(40)[3:35:2][1::3].repeat(2).to_iter_dataset(INLINE)


@stream(limit=40)
def slice_of_slice_of_shuffle() -> Any:
    return Map.range(40).shuffle(3)[3:35:2][1::3].repeat(2).to_iter_dataset(INLINE)


@stream(limit=40)
def slice_backwards_of_slice_backwards() -> Any:
    return Map.range(20).shuffle(6)[::-2][::-3].repeat(2).to_iter_dataset(INLINE)


@stream(limit=60)
def slice_of_finite_repeat() -> Any:
    return Map.range(7).shuffle(2).repeat(3)[2:20:3].to_iter_dataset(INLINE)


@stream(limit=30)
def slice_of_endless_repeat() -> Any:
    return Map.range(7).shuffle(2).repeat()[5::11].to_iter_dataset(INLINE)


@stream(limit=30)
def slice_after_shuffle_and_repeat_without_reseeding() -> Any:
    ds = Map.range(7).shuffle(2).repeat(3, reseed_each_epoch=False)
    return ds[1:18:2].to_iter_dataset(INLINE)


@stream(limit=60, over={f"{i}_of_3": (i,) for i in range(3)})
def shard_by_slice(shard: int) -> Any:
    return Map.range(22).shuffle(1)[shard::3].repeat(2).to_iter_dataset(INLINE)


@stream(limit=60)
def slice_then_shuffle() -> Any:
    return Map.range(30)[5:25].shuffle(8).repeat(2).to_iter_dataset(INLINE)


@stream(limit=60)
def slice_method_is_the_bracket() -> Any:
    return Map.range(30).shuffle(8).slice(slice(4, 20, 5)).repeat(2).to_iter_dataset(INLINE)


@stream(limit=25)
def repeat_without_end() -> Any:
    return Map.range(4).shuffle(5).repeat().to_iter_dataset(INLINE)


@stream(limit=60)
def repeat_of_repeat() -> Any:
    return Map.range(4).shuffle(5).repeat(2).repeat(3).to_iter_dataset(INLINE)


@stream(limit=60)
def repeat_of_repeat_inner_without_reseeding() -> Any:
    ds = Map.range(4).shuffle(5).repeat(2, reseed_each_epoch=False).repeat(2)
    return ds.to_iter_dataset(INLINE)


@stream(limit=60)
def repeat_of_repeat_outer_without_reseeding() -> Any:
    ds = Map.range(4).shuffle(5).repeat(2).repeat(2, reseed_each_epoch=False)
    return ds.to_iter_dataset(INLINE)


@stream(limit=60)
def repeat_of_one_element() -> Any:
    return Map.range(1).shuffle(5).repeat(4).to_iter_dataset(INLINE)


@stream(limit=60)
def repeat_of_concatenation() -> Any:
    parts = [Map.range(3).shuffle(1), Map.range(10, 15).shuffle(2), Map.range(20, 21)]
    return Map.concatenate(parts).repeat(3).to_iter_dataset(INLINE)


@stream(limit=60)
def repeat_of_concatenation_without_reseeding() -> Any:
    parts = [Map.range(3).shuffle(1), Map.range(10, 15).shuffle(2)]
    return Map.concatenate(parts).repeat(2, reseed_each_epoch=False).to_iter_dataset(INLINE)


@stream(limit=60)
def concatenation_of_finite_repeats() -> Any:
    parts = [Map.range(3).shuffle(1).repeat(2), Map.range(10, 14).shuffle(2)]
    return Map.concatenate(parts).repeat(2).to_iter_dataset(INLINE)


@stream(limit=60)
def concatenation_of_slices() -> Any:
    ds = Map.range(12).shuffle(3)
    return Map.concatenate([ds[8:], ds[:4], ds[4:8]]).repeat(2).to_iter_dataset(INLINE)


@stream(limit=60)
def concatenation_with_an_empty_part() -> Any:
    return Map.concatenate([Map.range(0), Map.range(3), Map.range(0)]).to_iter_dataset(INLINE)


@stream(limit=60)
def concatenation_of_concatenations() -> Any:
    inner = Map.concatenate([Map.range(2), Map.range(10, 13).shuffle(1)])
    return Map.concatenate([inner, Map.range(20, 22), inner]).repeat(2).to_iter_dataset(INLINE)


@stream(limit=60)
def range_with_negative_step() -> Any:
    return Map.range(9, -2, -3).shuffle(1).repeat(2).to_iter_dataset(INLINE)


@stream(limit=60)
def empty_dataset() -> Any:
    return Map.range(0).shuffle(1).repeat(2).to_iter_dataset(INLINE)


@value
def iterating_a_map_dataset_directly() -> Any:
    return [list(Map.range(6).shuffle(1).repeat(2)), list(Map.range(0)), list(Map.source("abc"))]


@value
def iterating_a_data_source() -> Any:
    return list(Map.source(grain.sources.RangeDataSource(3, 20, 4)).shuffle(2).repeat(2))
