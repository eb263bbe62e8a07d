"""Types of transformations by what they do, from which a type checker infers the elements of a dataset."""

from __future__ import annotations

from typing import Protocol, TypeVar

import numpy as np

T_contra = TypeVar("T_contra", contravariant=True)
S_co = TypeVar("S_co", covariant=True)


class SupportsMap(Protocol[T_contra, S_co]):
    """An object such as a `grain.transforms.Map`."""

    def map(self, element: T_contra, /) -> S_co:
        """Return the element that replaces `element`."""


class SupportsMapWithIndex(Protocol[T_contra, S_co]):
    """An object such as a `grain.transforms.MapWithIndex`."""

    def map_with_index(self, index: int, element: T_contra, /) -> S_co:
        """Return the element that replaces `element` at `index`."""


class SupportsRandomMap(Protocol[T_contra, S_co]):
    """An object such as a `grain.transforms.RandomMap`."""

    def random_map(self, element: T_contra, rng: np.random.Generator, /) -> S_co:
        """Return the element that replaces `element`."""
