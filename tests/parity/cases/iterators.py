"""The life of a DatasetIterator: every state, the end and beyond it, going back, closing."""

from __future__ import annotations

import json
from typing import Any

from ..registry import value
from .common import (
    INLINE,
    THREADS,
    Iter,
    Map,
    append_draw,
    index_times_hundred,
    is_third,
    numbers,
    read_twice_after_one,
)


def _all_states(ds: Any) -> list[Any]:
    iterator = iter(ds)
    states = [iterator.get_state()]
    for _ in iterator:
        states.append(json.loads(json.dumps(iterator.get_state())))
    return [*states, iterator.get_state()]


@value
def states_of_map_chain() -> Any:
    return _all_states(Map.range(6).shuffle(1).to_iter_dataset(INLINE))


@value
def states_of_threads() -> Any:
    return _all_states(Map.range(6).shuffle(1).to_iter_dataset(THREADS))


@value
def states_of_filter() -> Any:
    return _all_states(Map.range(11).filter(is_third).to_iter_dataset(INLINE))


@value
def states_of_filter_in_threads() -> Any:
    return _all_states(Map.range(11).filter(is_third).to_iter_dataset(THREADS))


@value
def states_of_filter_allowing_nones() -> Any:
    return _all_states(Map.range(5).filter(is_third).to_iter_dataset(INLINE, allow_nones=True))


@value
def states_of_filter_iter() -> Any:
    return _all_states(numbers(11).filter(is_third))


@value
def states_of_random_map_iter_after_filter() -> Any:
    return _all_states(numbers(11).filter(is_third).random_map(append_draw, seed=1))


@value
def states_of_map_with_index_iter_after_filter() -> Any:
    return _all_states(numbers(11).filter(is_third).map_with_index(index_times_hundred))


@value
def states_of_batch_iter() -> Any:
    return _all_states(numbers(7).batch(3))


@value
def states_of_batch_iter_dropping_the_remainder() -> Any:
    return _all_states(numbers(7).batch(3, drop_remainder=True))


@value
def states_of_batch_iter_after_filter() -> Any:
    return _all_states(numbers(20).filter(is_third).batch(3))


@value
def states_of_mix_iter() -> Any:
    return _all_states(Iter.mix([numbers(3), numbers(10, 12)], [2, 1]))


@value
def states_of_mix_iter_named() -> Any:
    return _all_states(Iter.mix({"b": numbers(3), "a": numbers(10, 12)}))


@value
def states_of_many_layers() -> Any:
    mixed = Iter.mix([numbers(9).filter(is_third), numbers(10, 19).random_map(append_draw, seed=1)])
    return _all_states(
        mixed.map_with_index(index_times_hundred).batch(2).random_map(lambda b, rng: b, seed=2)
    )


@value
def iterator_after_its_end() -> Any:
    iterator = iter(numbers(3))
    return [list(iterator), iterator.get_state(), list(iterator), iterator.get_state()]


@value
def iterator_goes_back() -> Any:
    iterator = iter(numbers(6).random_map(append_draw, seed=3))
    state = iterator.get_state()
    first = [next(iterator) for _ in range(4)]
    iterator.set_state(state)
    return [first, list(iterator)]


@value
def iterator_goes_back_after_its_end() -> Any:
    return read_twice_after_one(numbers(5).batch(2))


@value
def iterator_set_to_its_end() -> Any:
    iterator = iter(numbers(5))
    iterator.set_state({"next_index": 5})
    return list(iterator)


@value
def iterators_are_independent() -> Any:
    ds = Map.range(6).shuffle(1).to_iter_dataset(INLINE)
    first, second = iter(ds), iter(ds)
    return [
        [next(first), next(first), next(second), next(first), next(second)],
        first.get_state(),
        second.get_state(),
    ]


@value
def iterator_closed_twice_still_has_its_state() -> Any:
    iterator = iter(numbers(5))
    next(iterator)
    iterator.close()
    iterator.close()
    return iterator.get_state()


@value
def iterator_started_early() -> Any:
    iterator = iter(Map.range(20).shuffle(1).to_iter_dataset(THREADS))
    iterator.start_prefetch()
    return [next(iterator), iterator.get_state()]


@value
def iterator_of_a_map_dataset() -> Any:
    iterator = iter(Map.range(5).shuffle(1))
    return [next(iterator), next(iterator), iterator.get_state()]


@value
def iterator_is_its_own_iterator() -> Any:
    iterator = iter(numbers(3))
    return iter(iterator) is iterator
