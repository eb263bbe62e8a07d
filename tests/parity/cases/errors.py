"""Wrong calls: the type of the exception, and its message where the reference's is worth keeping.

A builder both builds and reads, so that failing earlier than the reference is no difference.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import grain

from ..registry import error
from .common import (
    INLINE,
    Iter,
    Map,
    add_one,
    append_draw,
    is_even,
    numbers,
    only_draw,
)

# building map datasets


@error(over={"zero": (0,), "negative": (-3,)})
def error_repeat_epochs(epochs: int) -> Any:
    return Map.range(3).repeat(epochs)


@error
def error_repeat_of_endless() -> Any:
    return Map.range(3).repeat().repeat(2)


@error(over={"zero": (0,), "negative": (-3,)})
def error_batch_size(size: int) -> Any:
    return Map.range(3).batch(size)[0]


@error(over={"zero": (0,), "negative": (-3,)})
def error_batch_size_iter(size: int) -> Any:
    return list(numbers(3).batch(size))


@error
def error_batch_after_filter() -> Any:
    return list(Map.range(9).filter(is_even).batch(3))


@error(over={"negative": (-1,), "too_large": (2**32,)})
def error_shuffle_seed(seed: int) -> Any:
    return Map.range(4).shuffle(seed)[0]


@error
def error_shuffle_without_seed() -> Any:
    return Map.range(4).shuffle()[0]


@error
def error_random_map_without_seed() -> Any:
    return Map.range(4).random_map(only_draw)[0]


@error
def error_random_map_without_seed_iter() -> Any:
    return list(numbers(4).random_map(only_draw))


@error(type_only=True, over={"an_int": (3,), "a_string": ("1:2",)})
def error_slice_of(sl: Any) -> Any:
    return Map.range(4).slice(sl)


@error(type_only=True)
def error_slice_step_zero() -> Any:
    return Map.range(4)[::0]


@error(type_only=True)
def error_range_step_zero() -> Any:
    return Map.range(0, 4, 0)


@error
def error_concatenate_endless() -> Any:
    return Map.concatenate([Map.range(3).repeat(), Map.range(3)])


@error
def error_mix_with_empty_part() -> Any:
    return Map.mix([Map.range(3), Map.range(0)])


@error
def error_mix_with_zero_weight() -> Any:
    return Map.mix([Map.range(3), Map.range(3)], [1, 0])


@error
def error_mix_iter_with_zero_weight() -> Any:
    return list(Iter.mix([numbers(3), numbers(3)], [1, 0]))


@error(type_only=True)
def error_mix_of_nothing() -> Any:
    return Map.mix([])


@error(type_only=True)
def error_mix_iter_of_nothing() -> Any:
    return Iter.mix([])


@error(type_only=True)
def error_mix_weights_do_not_match() -> Any:
    return Map.mix([Map.range(3)], [1, 2])


@error(type_only=True)
def error_mix_iter_weights_do_not_match() -> Any:
    return Iter.mix([numbers(3)], [1, 2])


@error(type_only=True)
def error_mix_with_negative_weight() -> Any:
    return Map.mix([Map.range(3), Map.range(3)], [1, -1])


@error(type_only=True)
def error_mix_of_iter_datasets() -> Any:
    return Map.mix([numbers(3), numbers(3)])


@error(over={"an_int": (3,), "in_a_list": ([3],)})
def error_apply(transformations: Any) -> Any:
    return Map.range(4).apply(transformations)


@error(over={"an_int": (3,), "in_a_list": ([3],)})
def error_apply_iter(transformations: Any) -> Any:
    return numbers(4).apply(transformations)


# reading


@error(type_only=True, over={"range": (0,), "source": (1,), "slice": (2,), "shuffle": (3,)})
def error_reading_empty(which: int) -> Any:
    empty = (Map.range(0), Map.source([]), Map.range(5)[3:3], Map.range(0).shuffle(1))[which]
    return empty[0]


@error(type_only=True)
def error_reading_with_a_string() -> Any:
    return Map.range(4)["a"]


@error(type_only=True)
def error_batch_of_different_shapes() -> Any:
    return Map.source([np.zeros(2), np.zeros(3)]).batch(2)[0]


@error(type_only=True)
def error_batch_of_different_shapes_iter() -> Any:
    return list(Map.source([np.zeros(2), np.zeros(3)]).to_iter_dataset(INLINE).batch(2))


def _fail_at_three(x: int) -> int:
    if x == 3:
        raise LookupError("three is not welcome")
    return x


@error
def error_in_users_map() -> Any:
    return list(Map.range(5).map(_fail_at_three))


@error
def error_in_users_map_in_threads() -> Any:
    options = grain.ReadOptions(num_threads=2, prefetch_buffer_size=4)
    return list(Map.range(5).map(_fail_at_three).to_iter_dataset(options))


@error
def error_in_users_filter_iter() -> Any:
    return list(numbers(5).filter(_fail_at_three))


@error
def error_in_users_batch_fn() -> Any:
    def fail(elements: Any) -> Any:
        raise LookupError(f"cannot batch {len(elements)}")

    return list(Map.range(5).batch(3, batch_fn=fail))


@error
def error_in_users_source() -> Any:
    class Broken:
        def __len__(self) -> int:
            return 3

        def __getitem__(self, index: int) -> int:
            raise OSError("disk on fire")

    return list(Map.source(Broken()))


@error(type_only=True)
def error_map_function_takes_no_argument() -> Any:
    return list(Map.range(3).map(lambda: 0))


@error(type_only=True)
def error_map_without_a_function() -> Any:
    return list(Map.range(3).map(3))


@error(type_only=True)
def error_source_without_length() -> Any:
    return len(Map.source(3))


# iterators


@error(over={"past": (9,), "negative": (-1,)})
def error_set_state_out_of_range(next_index: int) -> Any:
    iterator = iter(numbers(4))
    iterator.set_state({"next_index": next_index})
    return list(iterator)


@error(type_only=True)
def error_set_state_with_wrong_keys() -> Any:
    iterator = iter(numbers(4))
    iterator.set_state({"somewhere": 1})
    return list(iterator)


@error(type_only=True)
def error_set_state_to_a_number() -> Any:
    iterator = iter(numbers(4))
    iterator.set_state(3)
    return list(iterator)


@error
def error_next_after_close() -> Any:
    iterator = iter(numbers(4))
    iterator.close()
    return next(iterator)


@error(type_only=True)
def error_length_of_iter_dataset() -> Any:
    return len(numbers(4))


@error(type_only=True)
def error_slice_by_a_list() -> Any:
    return list(Map.range(9).slice([3, 1, 4]))


@error(type_only=True)
def error_map_dataset_is_abstract() -> Any:
    return grain.MapDataset()


@error(type_only=True)
def error_map_with_index_wrong_function() -> Any:
    return list(Map.range(3).map_with_index(add_one))


@error(type_only=True)
def error_random_map_wrong_function() -> Any:
    return list(Map.range(3).random_map(add_one, seed=1))


@error(type_only=True)
def error_random_map_negative_seed() -> Any:
    return list(Map.range(3).random_map(append_draw, seed=-1))
