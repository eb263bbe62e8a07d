"""Call a transform of any kind on an element, as the library would."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from grain import transforms, tree

KINDS = (
    transforms.Map,
    transforms.RandomMap,
    transforms.TfRandomMap,
    transforms.MapWithIndex,
    transforms.Filter,
    transforms.FlatMap,
    transforms.Batch,
)
_SEED = 20_260_218


def apply(transform: Any, element: Any, index: int) -> Any:
    """Return the result for one element; the generator is seeded by the element's index.

    For a `Batch`, the element is a list of elements.

    Example:
        >>> apply(str.upper, "abc", 0)
        'ABC'
    """
    if isinstance(transform, transforms.Map):
        return transform.map(element)
    if isinstance(transform, transforms.RandomMap):
        return transform.random_map(element, generator(index))
    if isinstance(transform, transforms.TfRandomMap):
        return transform.np_random_map(element, generator(index))
    if isinstance(transform, transforms.MapWithIndex):
        return transform.map_with_index(index, element)
    if isinstance(transform, transforms.Filter):
        return transform.filter(element)
    if isinstance(transform, transforms.FlatMap):
        return transform.flat_map(element)
    if isinstance(transform, transforms.Batch):
        return (transform.batch_fn or tree.stack)(element)
    if callable(transform):
        return transform(element)
    raise TypeError(
        f"{transform!r} is not a transform: expected a subclass of"
        f" {', '.join(kind.__name__ for kind in KINDS)}, or a function."
    )


def apply_all(
    transform: Any, inputs: Sequence[Any], order: Sequence[int] | None = None
) -> Iterator[Any]:
    """Yield the result for each input, in the given order of indices or forward."""
    return (
        apply(transform, inputs[index], index)
        for index in (range(len(inputs)) if order is None else order)
    )


def generator(index: int) -> np.random.Generator:
    """Return the generator for the element at an index, the same on every call."""
    return np.random.Generator(np.random.Philox(key=_SEED, counter=index))
