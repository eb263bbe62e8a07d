"""Base classes of users' transformations: small picklable objects that process elements.

The transforms of installed plugins can be imported from here too.
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
    """A function of an element.

    >>> class Double(Map):
    ...     def map(self, element):
    ...         return 2 * element
    >>> Double().map(21)
    42
    """

    @abc.abstractmethod
    def map(self, element: Any) -> Any:
        """Return the element that replaces `element`."""


class RandomMap(abc.ABC):
    """A function of an element and a random generator.

    All randomness must come from `rng`: it is seeded for each element, so that the result does not
    depend on the process that computes it or on the time.
    """

    @abc.abstractmethod
    def random_map(self, element: Any, rng: np.random.Generator) -> Any:
        """Return the element that replaces `element`."""


class TfRandomMap(abc.ABC):
    """A random map for TensorFlow pipelines that can also run on numpy."""

    @abc.abstractmethod
    def np_random_map(self, element: Any, rng: np.random.Generator) -> Any:
        """Return the element that replaces `element`."""


class MapWithIndex(abc.ABC):
    """A function of an element and its index in the dataset."""

    @abc.abstractmethod
    def map_with_index(self, index: int, element: Any) -> Any:
        """Return the element that replaces `element`."""


class Filter(abc.ABC):
    """A predicate that keeps some elements and drops the others."""

    @abc.abstractmethod
    def filter(self, element: Any) -> bool:
        """Return whether to keep `element`."""


class FlatMap(abc.ABC):
    """A function that splits an element into several, at most `max_fan_out` of them."""

    max_fan_out: int

    @abc.abstractmethod
    def flat_map(self, element: Any) -> Sequence[Any]:
        """Return the elements that replace `element`."""


@dataclasses.dataclass(frozen=True)
class Batch:
    """Batching: consecutive elements are stacked along a new first dimension.

    Attributes:
        batch_size: The number of elements of a batch.
        drop_remainder: Whether a last, shorter batch is dropped.
        batch_fn: Returns the batch of a list of elements; the default stacks arrays, leaf by leaf.
    """

    batch_size: int
    drop_remainder: bool = False
    batch_fn: Callable[[Sequence[Any]], Any] | None = None


class DatasetSelectionMap(abc.ABC):
    """The dataset, and the index in that dataset, of each element of a mixture."""

    @abc.abstractmethod
    def __len__(self) -> int:
        """Return the number of elements of the mixture."""

    @abc.abstractmethod
    def __getitem__(self, index: int) -> tuple[int, int]:
        """Return the dataset of element `index`, and the element's index in that dataset."""


Transformation = Batch | Map | RandomMap | TfRandomMap | Filter | FlatMap | MapWithIndex
Transformations = Sequence[Transformation]


__getattr__, __dir__ = lazy_names(__name__, from_plugins=lambda name: True)
