"""Functions of one element and a random generator that is seeded for that element."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import count
from typing import Any, TypeVar

import numpy as np

from grain import transforms
from grain._exceptions import note_element, transform_name
from grain.dataset.base import IterDataset, MapDataset
from grain.dataset.iterator import CountingIterator, DatasetIterator, Transformed
from grain.dataset.map import TransformIterDataset, TransformMapDataset, function_of, has_none
from grain.index.permutation import IndexArray
from grain.options import checked_int
from grain.rng import RngPool

T = TypeVar("T")


def _seed_of(dataset: Any, seed: int | None) -> int:
    if seed is None:
        seed = dataset._default_seed
    if seed is None:
        raise ValueError(
            "`random_map` requires a seed. Please either provide it with `ds.seed(seed)` before any "
            "random transformations or pass it directly with `ds.random_map(transform, seed=seed)`."
        )
    return checked_int("seed", seed, least=0)


def _apply_random(
    function: Callable[[Any, np.random.Generator], Any],
    pool: RngPool,
    indices: Iterable[int],
    elements: list[Any],
    out: list[Any],
) -> Exception | None:
    borrowed = pool.borrow()

    def generators() -> Iterator[np.random.Generator]:
        # Set just before the function is called: `map` asks for one element and one generator.
        for index in indices:
            yield borrowed.seek(index)

    try:
        out.extend(map(function, elements, generators()))
    except Exception as error:
        return error
    finally:
        pool.give_back(borrowed)
    if len(out) < len(elements):
        return RuntimeError(f"{function!r} raised StopIteration.")
    return None


class RandomMapMapDataset(TransformMapDataset[T]):
    """Applies a random function to every element; its draws depend on the seed and the index alone."""

    def __init__(self, parent: MapDataset[Any], transform: Any, seed: int | None = None):
        function = function_of(transform, transforms.RandomMap, "random_map", "random_map")
        super().__init__(parent, transform, function)
        self._seed = _seed_of(self, seed)
        self._rngs = RngPool(self._seed)

    def _apply(self, indices: IndexArray, elements: list[Any], out: list[Any]) -> Exception | None:
        return _apply_random(self._function, self._rngs, indices.tolist(), elements, out)


class RandomMapIterDataset(TransformIterDataset[T]):
    """Applies a random function to every element; its draws depend on the seed and the count."""

    _aligned = True
    _counter_name = "index_for_rng"

    def __init__(self, parent: IterDataset[Any], transform: Any, seed: int | None = None):
        function = function_of(transform, transforms.RandomMap, "random_map", "random_map")
        super().__init__(parent, transform, function)
        self._seed = _seed_of(self, seed)
        self._rngs = RngPool(self._seed)

    def _iterator_over(self, parent: DatasetIterator[Any]) -> DatasetIterator[T]:
        return RandomMapDatasetIterator(parent, self)

    def apply_chunk(self, elements: list[Any], first: int) -> Transformed:
        function = self._function
        out: list[Any] = []

        def skip_none(element: Any, rng: np.random.Generator) -> Any:
            return None if element is None else function(element, rng)

        chosen = skip_none if has_none(elements) else function
        error = _apply_random(chosen, self._rngs, count(first), elements, out)
        if error is not None:
            note_element(error, self, first + len(out), self._sources())
        return Transformed(out, None, len(out), error)


class RandomMapDatasetIterator(CountingIterator[T]):
    """Counts and maps chunk by chunk."""

    _counter_name = "index_for_rng"

    def __init__(self, parent: DatasetIterator[Any], dataset: RandomMapIterDataset[T]):
        super().__init__(parent)
        self._dataset = dataset

    def __str__(self) -> str:
        return f"RandomMapDatasetIterator(transform={transform_name(self._dataset._transform)})"

    def _transform(self, elements: list[Any]) -> Transformed:
        return self._dataset.apply_chunk(elements, self._count)
