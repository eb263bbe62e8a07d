"""Calling a transform of any kind on an element, as the library would."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from grain import transforms

KINDS = (
    transforms.Map,
    transforms.RandomMap,
    transforms.TfRandomMap,
    transforms.MapWithIndex,
    transforms.Filter,
    transforms.FlatMap,
)
_SEED = 20_260_218


def apply(transform: Any, element: Any, place: int) -> Any:
    """The result for one element; the generator depends on the element's place alone.

    Example:
        >>> apply(str.upper, "abc", 0)
        'ABC'
    """
    if isinstance(transform, transforms.Map):
        return transform.map(element)
    if isinstance(transform, transforms.RandomMap):
        return transform.random_map(element, generator(place))
    if isinstance(transform, transforms.TfRandomMap):
        return transform.np_random_map(element, generator(place))
    if isinstance(transform, transforms.MapWithIndex):
        return transform.map_with_index(place, element)
    if isinstance(transform, transforms.Filter):
        return transform.filter(element)
    if isinstance(transform, transforms.FlatMap):
        return transform.flat_map(element)
    if callable(transform):
        return transform(element)
    raise TypeError(
        f"{transform!r} is no transform: expected a subclass of"
        f" {', '.join(kind.__name__ for kind in KINDS)}, or a function."
    )


def apply_all(transform: Any, inputs: Sequence[Any], order: Sequence[int] | None = None) -> Any:
    """The results for inputs, one by one; in another order, if told."""
    return (
        apply(transform, inputs[place], place)
        for place in (range(len(inputs)) if order is None else order)
    )


def generator(place: int) -> np.random.Generator:
    """A generator for the element at a place, the same each time."""
    return np.random.Generator(np.random.Philox(key=_SEED, counter=place))
