"""Random pipelines as recipes: small printable values that build equal datasets any number of times.

A recipe is a source followed by steps. Elements are numbers or arrays of numbers, and every function
below takes either, so any step may follow any other that the library allows.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

import grain

LARGE_PRIME = 10_007


@dataclasses.dataclass(frozen=True)
class Step:
    """One operation and its arguments; `recipes` are the other datasets it joins, if any."""

    name: str
    arguments: tuple[Any, ...] = ()
    recipes: tuple[Recipe, ...] = ()

    def __repr__(self) -> str:
        inside = [repr(a) for a in self.arguments] + [repr(p) for p in self.recipes]
        return f"{self.name}({', '.join(inside)})"


@dataclasses.dataclass(frozen=True)
class Recipe:
    """A source and the steps after it; its `repr` is the chain of calls."""

    source: Step
    steps: tuple[Step, ...] = ()

    def __repr__(self) -> str:
        return ".".join(repr(step) for step in (self.source, *self.steps))

    def then(self, step: Step) -> Recipe:
        """Return this recipe with one more step."""
        return Recipe(self.source, (*self.steps, step))

    def build(self, read_options: grain.ReadOptions | None = None) -> Any:
        """Return a new dataset; `read_options` apply where it becomes an iter dataset."""
        ds = SOURCES[self.source.name](*self.source.arguments)
        for step in self.steps:
            if step.name == "to_iter":
                ds = ds.to_iter_dataset(read_options, allow_nones=False)
            else:
                others = [recipe.build(read_options) for recipe in step.recipes]
                ds = STEPS[step.name](ds, *step.arguments, *others)
        return ds


# Users' classes: sources with two methods, datasets and iterators with the abstract methods only.


class OwnSource:
    """A source with only a length and single reads."""

    def __init__(self, length: int):
        self._length = length

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, index: int) -> int:
        if not 0 <= index < self._length:
            raise IndexError(index)
        return 3 * int(index) + 1


class OwnMapDataset(grain.MapDataset):
    """A map dataset that is its own source."""

    def __init__(self, length: int):
        super().__init__()
        self._length = length

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return self.slice(index)
        return 5 * (int(index) % self._length) + 2


class OwnReversal(grain.MapDataset):
    """A map dataset over a parent: each epoch backwards."""

    def __len__(self) -> int:
        return len(self._parent)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return self.slice(index)
        epoch, offset = divmod(int(index), len(self))
        return self._parent[epoch * len(self) + len(self) - 1 - offset]


class OwnPairsIterator(grain.DatasetIterator):
    """An iterator over sums of neighbours, an odd last element alone, that counts its elements."""

    def __init__(self, parent: grain.DatasetIterator):
        super().__init__(parent)
        self._given = 0

    def __next__(self) -> Any:
        total = next(self._parent)
        total = total + next(self._parent, 0)
        self._given += 1
        return total + self._given

    def get_state(self) -> dict[str, Any]:
        return {"inside": self._parent.get_state(), "given": self._given}

    def set_state(self, state: dict[str, Any]) -> None:
        self._parent.set_state(state["inside"])
        self._given = state["given"]


class OwnPairs(grain.IterDataset):
    """The dataset of `OwnPairsIterator`."""

    def __iter__(self) -> grain.DatasetIterator:
        return OwnPairsIterator(iter(self._parent))


# Functions for operations; each takes numbers and arrays of numbers.


def affine(factor: int, offset: int) -> Callable[[Any], Any]:
    """Return x -> factor * x + offset."""
    return lambda x: (x * factor + offset) % LARGE_PRIME


def keeps(modulus: int) -> Callable[[Any], bool]:
    """Return a predicate that drops elements whose sum is a multiple of `modulus`."""
    return lambda x: int(np.sum(x)) % modulus != 0


def add_index(index: int, x: Any) -> Any:
    """Return x + 7 * index."""
    return (x + 7 * (index % LARGE_PRIME)) % LARGE_PRIME


def add_draw(x: Any, rng: np.random.Generator) -> Any:
    """Return x + two draws."""
    return (x + int(rng.integers(0, 1000)) + int(rng.integers(0, 10))) % LARGE_PRIME


def add_up(elements: Iterable[Any]) -> int:
    """Return a batch as one number, whatever its elements are."""
    return int(sum(int(np.sum(e)) * (i + 1) for i, e in enumerate(elements))) % LARGE_PRIME


SOURCES: dict[str, Callable[..., Any]] = {
    "range": lambda n: grain.MapDataset.range(n),
    "list": lambda n: grain.MapDataset.source([i * i for i in range(n)]),
    "own_source": lambda n: grain.MapDataset.source(OwnSource(n)),
    "own_dataset": lambda n: OwnMapDataset(n),
}

STEPS: dict[str, Callable[..., Any]] = {
    # both kinds of dataset
    "map": lambda ds, factor, offset: ds.map(affine(factor, offset)),
    "filter": lambda ds, modulus: ds.filter(keeps(modulus)),
    "map_with_index": lambda ds: ds.map_with_index(add_index),
    "random_map": lambda ds, seed: ds.random_map(add_draw, seed=seed),
    "seed": lambda ds, seed: ds.seed(seed),
    "batch": lambda ds, size, drop: ds.batch(size, drop_remainder=drop),
    "batch_add_up": lambda ds, size, drop: ds.batch(size, drop_remainder=drop, batch_fn=add_up),
    # map datasets
    "shuffle": lambda ds, seed: ds.shuffle(seed),
    "slice": lambda ds, start, stop, step: ds[start:stop:step],
    "repeat": lambda ds, epochs, reseed: ds.repeat(epochs, reseed_each_epoch=reseed),
    "own_reversal": lambda ds: OwnReversal(ds),
    "concatenate": lambda ds, *others: grain.MapDataset.concatenate([ds, *others]),
    "mix": lambda ds, weights, *others: grain.MapDataset.mix([ds, *others], weights),
    # iter datasets
    "own_pairs": lambda ds: OwnPairs(ds),
    "iter_mix": lambda ds, weights, *others: grain.IterDataset.mix([ds, *others], weights),
    "iter_mix_named": lambda ds, weights, *others: grain.IterDataset.mix(
        {f"part {i}": part for i, part in enumerate([ds, *others])},
        None if weights is None else {f"part {i}": w for i, w in enumerate(weights)},
    ),
}
