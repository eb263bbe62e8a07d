"""Functions of one element and a random generator that is seeded for that element."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import count
from typing import Any, Self, TypeVar

import numpy as np

from grain import transforms
from grain._exceptions import note_element
from grain._user_code import calls_user_code
from grain.dataset import epochs
from grain.dataset.chunk import stopped
from grain.dataset.iter_dataset import IterDataset
from grain.dataset.iterator import Transformed
from grain.dataset.map import TransformIterDataset, TransformMapDataset, function_of, has_none
from grain.dataset.map_dataset import MapDataset
from grain.index.permutation import IndexArray
from grain.options import checked_int
from grain.rng import RngPool

T = TypeVar("T")


def _seed_of(dataset: Any, seed: int | None) -> int:
    if seed is None:
        seed = dataset.default_seed
    if seed is None:
        # Message kept from google/grain 0.2.18
        raise ValueError(
            "`random_map` requires a seed. Please either provide it with `ds.seed(seed)` before any "
            "random transformations or pass it directly with `ds.random_map(transform, seed=seed)`."
        )
    return checked_int("seed", seed, least=0)


@calls_user_code
def _apply_random(
    function: Callable[[Any, np.random.Generator], Any],
    pool: RngPool,
    indices: Iterable[int],
    elements: list[Any],
    out: list[Any],
) -> Exception | None:
    borrowed = pool.borrow()

    def generators() -> Iterator[np.random.Generator]:
        # Seeded just before the function is called: `map` takes one element and one generator.
        for index in indices:
            yield borrowed.seek(index)

    try:
        out.extend(map(function, elements, generators()))
    except Exception as error:
        return error
    finally:
        pool.give_back(borrowed)
    if len(out) < len(elements):
        return stopped(function)
    return None


class RandomMapMapDataset(TransformMapDataset[T]):
    """A random function applied to every element; its draws depend only on the seed and the index."""

    fingerprint_name = "random_map"
    is_random = True

    def __init__(self, parent: MapDataset[Any], transform: Any, seed: int | None = None):
        function = function_of(transform, transforms.RandomMap, "random_map", "random_map")
        super().__init__(parent, transform, function)
        self._seed = _seed_of(self, seed)
        self._rngs = RngPool(self._seed)

    def _apply(self, indices: IndexArray, elements: list[Any], out: list[Any]) -> Exception | None:
        return _apply_random(self._function, self._rngs, indices.tolist(), elements, out)

    @calls_user_code
    def _apply_one(self, index: int, element: Any) -> Any:
        borrowed = self._rngs.borrow()
        try:
            return self._function(element, borrowed.seek(index))
        except StopIteration:
            error: Exception = stopped(self._function)
        except Exception as raised:
            error = raised
        finally:
            self._rngs.give_back(borrowed)
        note_element(error, self, index, self.describe_sources())
        raise error

    def fingerprint_arguments(self) -> dict[str, Any]:
        return {"transform": self._transform, "seed": self._seed}


class RandomMapIterDataset(TransformIterDataset[T]):
    """A random function applied to every element; its draws depend only on the seed and the count."""

    fingerprint_name = "random_map"
    is_random = True

    counts_elements = True
    counter_name = "index_for_rng"

    def __init__(self, parent: IterDataset[Any], transform: Any, seed: int | None = None):
        function = function_of(transform, transforms.RandomMap, "random_map", "random_map")
        super().__init__(parent, transform, function)
        self._seed = _seed_of(self, seed)
        self._rngs = RngPool(self._seed)

    def for_epoch(self, epoch: int) -> Self:
        node = super().for_epoch(epoch)
        node._seed = epochs.epoch_seed(self._seed, epoch)
        node._rngs = RngPool(node._seed)
        return node

    def apply_chunk(self, elements: list[Any], first: int) -> Transformed:
        function = self._function
        out: list[Any] = []

        def skip_none(element: Any, rng: np.random.Generator) -> Any:
            return None if element is None else function(element, rng)

        chosen = skip_none if has_none(elements) else function
        error = _apply_random(chosen, self._rngs, count(first), elements, out)
        if error is not None:
            note_element(error, self, first + len(out), self.describe_sources())
        return Transformed(out, None, len(out), error)

    def fingerprint_arguments(self) -> dict[str, Any]:
        return {"transform": self._transform, "seed": self._seed}
