"""Batches of every kind of element: sizes, remainders, epochs, dtypes, trees, batch functions."""

from __future__ import annotations

import collections
import dataclasses
from typing import Any

import numpy as np

from ..registry import stream, value
from .common import INLINE, THREADS, Map, add_one, as_tree, count_and_sum, is_third, numbers

Pair = collections.namedtuple("Pair", ["left", "right"])


@dataclasses.dataclass
class Point:
    """A class that no library of trees knows."""

    x: int
    y: float


@stream(limit=20, steps=(0, 1, 3))
def batch() -> Any:
    return Map.range(10).batch(3).to_iter_dataset(INLINE)


@stream(limit=20, steps=(0, 1, 2))
def batch_drop() -> Any:
    return Map.range(10).batch(3, drop_remainder=True).to_iter_dataset(INLINE)


@stream(limit=20, steps=(0, 1))
def batch_tree() -> Any:
    return Map.range(10).map(as_tree).batch(4).to_iter_dataset(INLINE)


@stream(limit=20, steps=(0, 1))
def batch_fn() -> Any:
    return Map.range(10).batch(4, batch_fn=count_and_sum).to_iter_dataset(INLINE)


@stream(limit=20, steps=(0, 1, 2))
def batch_iter_after_filter() -> Any:
    return Map.range(40).filter(is_third).to_iter_dataset(INLINE).batch(4)


@stream(limit=20, steps=(0, 1, 4))
def batch_repeat() -> Any:
    return Map.range(7).shuffle(1).batch(3).repeat(2).to_iter_dataset(INLINE)


@stream(limit=20, over={str(size): (size,) for size in (1, 2, 7, 8, 100)})
def batch_of_size(size: int) -> Any:
    return Map.range(7).shuffle(1).batch(size).repeat(2).to_iter_dataset(INLINE)


@stream(limit=20, over={str(size): (size,) for size in (1, 2, 7, 8)})
def batch_drop_remainder_of_size(size: int) -> Any:
    return (
        Map.range(7).shuffle(1).batch(size, drop_remainder=True).repeat(2).to_iter_dataset(INLINE)
    )


@stream(limit=20, over={str(size): (size,) for size in (1, 2, 7, 8)})
def batch_iter_of_size(size: int) -> Any:
    return numbers(7).batch(size)


@stream(limit=20, over={str(size): (size,) for size in (1, 2, 7, 8)})
def batch_iter_drop_remainder_of_size(size: int) -> Any:
    return numbers(7).batch(size, drop_remainder=True)


@stream(limit=20)
def batch_after_repeat_crosses_epochs() -> Any:
    return Map.range(5).shuffle(1).repeat(3).batch(4).to_iter_dataset(INLINE)


@stream(limit=20)
def batch_after_endless_repeat() -> Any:
    return Map.range(5).shuffle(1).repeat().batch(4).to_iter_dataset(INLINE)


@stream(limit=20)
def batch_of_batches() -> Any:
    return Map.range(24).batch(3).batch(2).batch(2).to_iter_dataset(INLINE)


@stream(limit=20)
def batch_of_batches_iter() -> Any:
    return numbers(24).batch(3).batch(2)


@stream(limit=20)
def batch_shuffled_after() -> Any:
    return Map.range(11).batch(3).shuffle(1).repeat(2).to_iter_dataset(INLINE)


@stream(limit=20)
def batch_sliced_after() -> Any:
    return Map.range(30).shuffle(1).batch(4)[1::2].repeat(2).to_iter_dataset(INLINE)


@stream(limit=20)
def batch_in_threads() -> Any:
    return Map.range(50).shuffle(1).map(as_tree).batch(8).to_iter_dataset(THREADS)


@stream(limit=20)
def batch_over_concatenation() -> Any:
    return (
        Map.concatenate([Map.range(4).shuffle(1), Map.range(10, 13)])
        .batch(3)
        .repeat(2)
        .to_iter_dataset(INLINE)
    )


_ELEMENTS: dict[str, list[Any]] = {
    "ints": [1, 2, 3],
    "large_ints": [2**40, -(2**62), 3],
    "floats": [1.5, 2.0, float("nan")],
    "bools": [True, False, True],
    "mixed_numbers": [1, 2.5, True],
    "complex_arrays": [np.array(1 + 2j), np.array(3j), np.array(0j)],
    "strings": ["a", "bcd", "ef"],
    "bytes": [b"a", b"bcd", b"ef"],
    "numpy_scalars": [np.float16(1), np.float16(2), np.float16(3)],
    "numpy_uint8": [np.uint8(1), np.uint8(255), np.uint8(3)],
    "numpy_strings": [np.str_("ab"), np.str_("c"), np.str_("def")],
    "mixed_numpy_dtypes": [np.int32(1), np.float64(2.5), np.int8(3)],
    "arrays": [
        np.zeros((2, 3), np.float32),
        np.ones((2, 3), np.float32),
        np.full((2, 3), 2, np.float32),
    ],
    "arrays_of_mixed_dtype": [
        np.zeros(2, np.int32),
        np.ones(2, np.float32),
        np.full(2, 2, np.int64),
    ],
    "empty_arrays": [np.zeros((0, 2)), np.zeros((0, 2)), np.zeros((0, 2))],
    "scalar_arrays": [np.array(1), np.array(2), np.array(3)],
    "fortran_arrays": [np.asfortranarray(np.arange(6).reshape(2, 3) + i) for i in range(3)],
    "datetimes": [np.datetime64("2024-01-01").astype("int64"), np.int64(2), np.int64(3)],
    "tuples": [(1, (2.0, "a")), (3, (4.0, "b")), (5, (6.0, "cc"))],
    "lists": [[1, 2], [3, 4], [5, 6]],
    "namedtuples": [Pair(1, 2.5), Pair(3, 4.5), Pair(5, 6.5)],
    "dicts": [{"b": 1, "a": 2.0}, {"b": 3, "a": 4.0}, {"b": 5, "a": 6.0}],
    "dicts_in_other_key_order": [{"a": 1, "b": 2}, {"b": 4, "a": 3}, {"a": 5, "b": 6}],
    "dicts_with_int_keys": [{1: 10, 2: 20}, {1: 11, 2: 21}, {1: 12, 2: 22}],
    "deep_trees": [
        {"x": [i, (np.arange(2) + i, {"y": str(i)})], "z": Pair(i, {"w": i / 2})} for i in range(3)
    ],
    "none_leaves": [{"a": None, "b": 1}, {"a": None, "b": 2}, {"a": None, "b": 3}],
    "dataclasses": [Point(1, 2.5), Point(3, 4.5), Point(5, 6.5)],
    "dataclasses_in_dicts": [{"p": Point(i, i / 2)} for i in range(3)],
    "empty_dicts": [{}, {}, {}],
    "empty_tuples": [(), (), ()],
}


@stream(limit=5, steps=(0, 1), over={name: (elements,) for name, elements in _ELEMENTS.items()})
def batch_of(elements: list[Any]) -> Any:
    return Map.source(elements).batch(2).to_iter_dataset(INLINE)


@stream(limit=5, steps=(0, 1), over={name: (elements,) for name, elements in _ELEMENTS.items()})
def batch_iter_of(elements: list[Any]) -> Any:
    return Map.source(elements).to_iter_dataset(INLINE).batch(2)


def _describe(elements: Any) -> list[Any]:
    return [type(elements).__name__, len(elements), list(elements)]


@stream(limit=10)
def batch_fn_receives_a_list() -> Any:
    return Map.range(7).batch(3, batch_fn=_describe).repeat(2).to_iter_dataset(INLINE)


@stream(limit=10)
def batch_fn_receives_a_list_iter() -> Any:
    return numbers(7).batch(3, batch_fn=_describe)


@stream(limit=10)
def batch_fn_and_drop_remainder() -> Any:
    return Map.range(7).batch(3, drop_remainder=True, batch_fn=_describe).to_iter_dataset(INLINE)


@stream(limit=10)
def batch_fn_and_drop_remainder_iter() -> Any:
    return numbers(7).batch(3, drop_remainder=True, batch_fn=_describe)


@stream(limit=10)
def batch_fn_with_ragged_elements() -> Any:
    def pad(elements: Any) -> np.ndarray:
        longest = max(len(e) for e in elements)
        return np.stack([np.pad(e, (0, longest - len(e))) for e in elements])

    ragged = [np.arange(n) for n in (3, 1, 4, 1, 5)]
    return Map.source(ragged).batch(2, batch_fn=pad).to_iter_dataset(INLINE)


@stream(limit=10, steps=(0, 1, 2))
def batch_iter_states_after_filter_and_map() -> Any:
    return numbers(40).filter(is_third).map(add_one).batch(3).map(lambda b: b * 2)


@value
def batch_result_is_writable_and_fresh() -> Any:
    ds = Map.source(np.arange(12).reshape(6, 2)).batch(2)
    first = ds[0]
    first += 100
    return [ds[0], bool(ds[0].flags.writeable)]


def _key_order(tree: Any) -> Any:
    return [[key, _key_order(part)] for key, part in tree.items()] if isinstance(tree, dict) else 0


@value
def batch_key_order() -> Any:
    element = {"b": 1, "a": {"z": 2, "y": 3}, "B": 4}
    ordered = collections.OrderedDict([("b", 1), ("a", 2)])
    default = collections.defaultdict(int, {"b": 1, "a": 2})
    return [
        _key_order(made)
        for made in (
            Map.source([element]).batch(1)[0],
            next(iter(Map.source([element]).to_iter_dataset(INLINE).batch(1))),
            Map.source([{2: 1, 1: 2}]).batch(1)[0],
            Map.source([ordered]).batch(1)[0],
            Map.source([default]).batch(1)[0],
        )
    ]
