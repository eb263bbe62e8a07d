"""Element by element: map, map_with_index, filter, None, pipe and apply."""

from __future__ import annotations

from typing import Any

import grain

from ..registry import stream, value
from .common import (
    INLINE,
    THREADS,
    AddOne,
    AppendDraw,
    IndexTimesHundred,
    IsEven,
    Map,
    add_one,
    append_draw,
    double,
    index_and_element,
    index_times_hundred,
    is_even,
    is_third,
    never,
    numbers,
)


@stream()
def map_with_index() -> Any:
    return Map.range(10).shuffle(1).map_with_index(index_times_hundred).to_iter_dataset(INLINE)


@stream()
def map_with_index_iter() -> Any:
    return Map.range(12).filter(is_even).to_iter_dataset(INLINE).map_with_index(index_times_hundred)


@stream(steps=(0, 1, 4))
def filter_map() -> Any:
    return Map.range(30).filter(is_third).to_iter_dataset(INLINE)


@stream()
def filter_allow_nones() -> Any:
    return Map.range(9).filter(is_third).to_iter_dataset(INLINE, allow_nones=True)


@stream()
def filter_iter() -> Any:
    return numbers(30).filter(is_third).map(add_one)


@stream()
def map_with_index_over_epochs() -> Any:
    ds = Map.range(4).shuffle(1).map_with_index(index_times_hundred)
    return ds.repeat(3).to_iter_dataset(INLINE)


@stream()
def map_with_index_over_epochs_without_reseeding() -> Any:
    ds = Map.range(4).shuffle(1).map_with_index(index_times_hundred)
    return ds.repeat(3, reseed_each_epoch=False).to_iter_dataset(INLINE)


@stream()
def map_with_index_after_repeat() -> Any:
    return Map.range(4).repeat(3).map_with_index(index_times_hundred).to_iter_dataset(INLINE)


@stream()
def map_with_index_of_slice() -> Any:
    ds = Map.range(20).map_with_index(index_and_element)[3:17:4]
    return ds.map_with_index(index_and_element).repeat(2).to_iter_dataset(INLINE)


@stream()
def map_with_index_of_batch() -> Any:
    return Map.range(7).batch(3).map_with_index(index_and_element).repeat(2).to_iter_dataset(INLINE)


@stream()
def map_with_index_by_class() -> Any:
    return Map.range(5).map_with_index(IndexTimesHundred()).to_iter_dataset(INLINE)


@stream()
def map_with_index_by_class_iter() -> Any:
    return numbers(5).map_with_index(IndexTimesHundred())


@stream()
def map_with_index_iter_after_filter_iter() -> Any:
    return numbers(20).filter(is_third).map_with_index(index_times_hundred)


@stream()
def map_with_index_iter_after_batch() -> Any:
    return numbers(8).batch(3).map_with_index(index_and_element)


@stream()
def map_with_index_twice_iter() -> Any:
    ds = numbers(20).map_with_index(index_and_element).filter(lambda pair: pair[1] % 3 == 0)
    return ds.map_with_index(index_and_element)


@stream()
def map_chain() -> Any:
    ds = Map.range(8).map(add_one).map(double).map(AddOne()).shuffle(3).map(double)
    return ds.repeat(2).to_iter_dataset(INLINE)


@stream()
def map_chain_iter() -> Any:
    return numbers(8).map(add_one).map(double).map(AddOne())


@stream(steps=(0, 1, 3))
def filter_chain() -> Any:
    return (
        Map.range(40)
        .filter(is_third)
        .map(double)
        .filter(lambda x: x % 4 == 0)
        .to_iter_dataset(INLINE)
    )


@stream(steps=(0, 1, 3))
def filter_chain_iter() -> Any:
    return numbers(40).filter(is_third).map(double).filter(lambda x: x % 4 == 0)


@stream(steps=(0, 1, 3))
def filter_by_class() -> Any:
    return Map.range(9).filter(IsEven()).to_iter_dataset(INLINE)


@stream(steps=(0, 1, 3))
def filter_by_class_iter() -> Any:
    return numbers(9).filter(IsEven())


@stream(steps=(0, 1, 9))
def filter_in_threads() -> Any:
    return Map.range(60).shuffle(1).filter(is_third).map(add_one).to_iter_dataset(THREADS)


@stream(steps=(0, 1, 4))
def filter_over_epochs() -> Any:
    return Map.range(7).shuffle(1).filter(is_third).repeat(3).to_iter_dataset(INLINE)


@stream()
def filter_before_shuffle_and_slice() -> Any:
    return Map.range(20).filter(is_third).shuffle(3)[2:15].repeat(2).to_iter_dataset(INLINE)


@stream(steps=(0,))
def filter_drops_everything() -> Any:
    return Map.range(5).filter(never).to_iter_dataset(INLINE)


@stream(steps=(0,))
def filter_iter_drops_everything() -> Any:
    return numbers(5).filter(never)


@stream(steps=(0, 1, 2))
def filter_keeps_the_last_only() -> Any:
    return Map.range(5).filter(lambda x: x == 4).to_iter_dataset(INLINE)


@stream()
def filter_allow_nones_with_threads() -> Any:
    return Map.range(9).filter(is_third).to_iter_dataset(THREADS, allow_nones=True)


@stream()
def filter_truthy_result() -> Any:
    return Map.range(5).filter(lambda x: x).to_iter_dataset(INLINE)


@stream()
def none_from_map_is_dropped() -> Any:
    return Map.range(8).map(lambda x: None if x % 3 == 1 else x).map(double).to_iter_dataset(INLINE)


@stream()
def none_from_map_with_index_is_dropped() -> Any:
    ds = Map.range(8).map_with_index(lambda i, x: None if i % 3 == 1 else x)
    return ds.map(double).to_iter_dataset(INLINE)


@stream()
def none_from_random_map_is_dropped() -> Any:
    ds = Map.range(12).random_map(lambda x, rng: x if rng.random() < 0.5 else None, seed=1)
    return ds.map(double).to_iter_dataset(INLINE)


@stream()
def none_from_map_iter_is_kept() -> Any:
    return numbers(6).map(lambda x: None if x % 2 else x)


@stream()
def none_in_the_source_is_dropped() -> Any:
    return Map.source([1, None, 3, None]).map(double).to_iter_dataset(INLINE)


@stream()
def none_never_reaches_a_function() -> Any:
    ds = Map.range(9).filter(is_third).map(add_one).map_with_index(index_times_hundred)
    return ds.random_map(append_draw, seed=1).to_iter_dataset(INLINE)


@stream()
def apply_a_list_of_transforms() -> Any:
    transforms = [AddOne(), IndexTimesHundred(), AppendDraw(), AddOne()]
    return Map.range(6).seed(2).shuffle().apply(transforms).to_iter_dataset(INLINE)


@stream()
def apply_one_transform() -> Any:
    return Map.range(6).apply(IsEven()).to_iter_dataset(INLINE)


@stream()
def apply_with_batch() -> Any:
    ds = Map.range(7).apply([AddOne(), grain.transforms.Batch(batch_size=3)])
    return ds.to_iter_dataset(INLINE)


@stream()
def apply_on_iter_dataset() -> Any:
    transforms = [
        IsEven(),
        AddOne(),
        AppendDraw(),
        IndexTimesHundred(),
        grain.transforms.Batch(2, True),
    ]
    return numbers(20).seed(4).apply(transforms)


@stream()
def apply_nothing() -> Any:
    return Map.range(3).apply([]).to_iter_dataset(INLINE)


@value
def pipe_passes_arguments() -> Any:
    def scale(ds: Any, factor: int, *, offset: int) -> Any:
        return ds.map(lambda x: x * factor + offset)

    return [
        list(Map.range(4).pipe(scale, 10, offset=3)),
        list(numbers(4).pipe(scale, 2, offset=1)),
    ]


@value
def pipe_may_return_anything() -> Any:
    return Map.range(4).pipe(len)


@value
def transforms_are_callable_on_elements() -> Any:
    return [AddOne().map(3), IsEven().filter(3), IndexTimesHundred().map_with_index(2, 3)]


@value
def batch_transform_is_a_value() -> Any:
    batch = grain.transforms.Batch(3, True)
    return [repr(batch), batch == grain.transforms.Batch(batch_size=3, drop_remainder=True)]
