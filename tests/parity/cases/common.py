"""Small functions, transforms and options that many builders share."""

from __future__ import annotations

from typing import Any

import numpy as np

import grain

INLINE = grain.ReadOptions(num_threads=0, prefetch_buffer_size=0)
THREADS = grain.ReadOptions(num_threads=4, prefetch_buffer_size=16)

Map = grain.MapDataset
Iter = grain.IterDataset


def numbers(*bounds: int) -> grain.IterDataset:
    """Return a range as an iter dataset."""
    return Map.range(*bounds).to_iter_dataset(INLINE)


def read_twice_after_one(ds: Any) -> list[Any]:
    """Return the elements after the first, read to the end and again from the state after the first."""
    iterator = iter(ds)
    next(iterator)
    state = iterator.get_state()
    rest = list(iterator)
    iterator.set_state(state)
    return [rest, list(iterator)]


def add_one(x: Any) -> Any:
    return x + 1


def double(x: Any) -> Any:
    return x * 2


def is_even(x: Any) -> bool:
    return x % 2 == 0


def is_third(x: Any) -> bool:
    return x % 3 == 0


def never(x: Any) -> bool:
    return False


def index_times_hundred(i: int, x: int) -> int:
    return i * 100 + x


def index_and_element(i: int, x: Any) -> tuple[int, Any]:
    return i, x


def append_draw(x: Any, rng: np.random.Generator) -> int:
    return int(x) * 1000 + int(rng.integers(0, 1000))


def add_normal(x: Any, rng: np.random.Generator) -> float:
    return float(rng.normal()) + x


def only_draw(x: Any, rng: np.random.Generator) -> int:
    return int(rng.integers(0, 10**6))


def many_draws(x: Any, rng: np.random.Generator) -> list[Any]:
    return [
        int(rng.integers(0, 2**31)),
        float(rng.random()),
        int(rng.integers(0, 10)),
        float(rng.standard_normal()),
    ]


def as_tree(x: int) -> dict[str, Any]:
    return {"a": np.array([x, x + 1]), "b": {"c": np.float32(x)}}


def count_and_sum(elements: Any) -> dict[str, np.ndarray]:
    return {"n": np.array(len(elements)), "s": np.array(sum(elements))}


class AddOne(grain.transforms.Map):
    def map(self, element: Any) -> Any:
        return element + 1


class AppendDraw(grain.transforms.RandomMap):
    def random_map(self, element: Any, rng: np.random.Generator) -> Any:
        return int(element) * 1000 + int(rng.integers(0, 1000))


class AppendDrawToArray(grain.transforms.RandomMap):
    def random_map(self, element: Any, rng: np.random.Generator) -> Any:
        return element * 1000 + rng.integers(0, 1000)


class IsEven(grain.transforms.Filter):
    def filter(self, element: Any) -> bool:
        return element % 2 == 0


class IndexTimesHundred(grain.transforms.MapWithIndex):
    def map_with_index(self, index: int, element: Any) -> Any:
        return index * 100 + element


def make_pieces() -> Any:
    """Return a flat-map transform that splits x into x % 4 elements, at most three."""

    class Pieces(grain.experimental.FlatMapTransform):
        max_fan_out = 3

        def flat_map(self, element: int) -> list[int]:
            return [element * 10 + piece for piece in range(element % 4)]

    return Pieces()
