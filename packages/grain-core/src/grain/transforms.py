"""Transformations that users write: small picklable objects that say what to do with an element.

Names of installed transform plugins can be imported from here too.
"""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from grain._lazy import lazy_names

__all__ = [
    "Batch",
    "DatasetSelectionMap",
    "Filter",
    "FlatMap",
    "Map",
    "MapWithIndex",
    "RandomMap",
    "TfRandomMap",
    "Transformation",
    "Transformations",
]


class Map(abc.ABC):
    """Turns each element into another one.

    >>> class Double(Map):
    ...     def map(self, element):
    ...         return 2 * element
    >>> Double().map(21)
    42
    """

    @abc.abstractmethod
    def map(self, element: Any) -> Any:
        """Returns the element that takes the place of `element`."""


class RandomMap(abc.ABC):
    """Turns each element into another one with the help of a random generator.

    All randomness must come from `rng`: it is seeded for each element, so that the result does not
    depend on who computes it or when.
    """

    @abc.abstractmethod
    def random_map(self, element: Any, rng: np.random.Generator) -> Any:
        """Returns the element that takes the place of `element`."""


class TfRandomMap(abc.ABC):
    """A random map for TensorFlow pipelines that can also run on numpy."""

    @abc.abstractmethod
    def np_random_map(self, element: Any, rng: np.random.Generator) -> Any:
        """Returns the element that takes the place of `element`."""


class MapWithIndex(abc.ABC):
    """Turns each element into another one, knowing its position in the dataset."""

    @abc.abstractmethod
    def map_with_index(self, index: int, element: Any) -> Any:
        """Returns the element that takes the place of `element`."""


class Filter(abc.ABC):
    """Keeps some elements and drops the others."""

    @abc.abstractmethod
    def filter(self, element: Any) -> bool:
        """Returns whether to keep `element`."""


class FlatMap(abc.ABC):
    """Splits each element into several, at most `max_fan_out` of them."""

    max_fan_out: int

    @abc.abstractmethod
    def flat_map(self, element: Any) -> Sequence[Any]:
        """Returns the elements that take the place of `element`."""


@dataclasses.dataclass(frozen=True)
class Batch:
    """Stacks consecutive elements along a new first dimension.

    Attributes:
      batch_size: elements in a batch.
      drop_remainder: whether a last, shorter batch is left out.
      batch_fn: makes a batch of a list of elements; the default stacks arrays, tree by tree.
    """

    batch_size: int
    drop_remainder: bool = False
    batch_fn: Callable[[Sequence[Any]], Any] | None = None


class DatasetSelectionMap(abc.ABC):
    """Says for each element of a mixture which dataset it comes from, and which element it is there."""

    @abc.abstractmethod
    def __len__(self) -> int:
        """How many elements the mixture has."""

    @abc.abstractmethod
    def __getitem__(self, index: int) -> tuple[int, int]:
        """Returns (dataset, element of that dataset) of element `index`."""


Transformation = Batch | Map | RandomMap | TfRandomMap | Filter | FlatMap | MapWithIndex
Transformations = Sequence[Transformation]


__getattr__, __dir__ = lazy_names(__name__, from_plugins=lambda name: True)
