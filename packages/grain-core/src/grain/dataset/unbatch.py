"""Batches split into their rows."""

from __future__ import annotations

from typing import Any, TypeVar

from grain import transforms, tree
from grain.dataset.element_spec import ShapeDtypeStruct, get_element_spec
from grain.dataset.flat_map import FlatMapIterDataset
from grain.dataset.iter_dataset import IterDataset

T = TypeVar("T")


class Unbatch(transforms.FlatMap):
    """A transformation that splits a batch into its rows."""

    def flat_map(self, element: Any) -> list[Any]:
        """Return the rows of a batch, in order."""
        sizes = set()
        for leaf in tree.leaves(element):
            if not getattr(leaf, "shape", ()):
                raise TypeError(
                    "unbatch needs batches, whose arrays have a first dimension; got "
                    f"{type(leaf).__name__}."
                )
            sizes.add(len(leaf))
        if len(sizes) > 1:
            raise ValueError(
                f"unbatch needs batches whose arrays have equally many rows; got {sorted(sizes)}."
            )
        count = sizes.pop() if sizes else 0
        return [_row(element, number) for number in range(count)]


def _row(batch: Any, number: int) -> Any:
    return tree.map_leaves(lambda rows: rows[number], batch)


class UnbatchIterDataset(FlatMapIterDataset[T]):
    """The rows of batches, in order.

    >>> import grain
    >>> batches = grain.MapDataset.range(5).batch(2).to_iter_dataset()
    >>> [int(x) for x in UnbatchIterDataset(batches)]
    [0, 1, 2, 3, 4]
    """

    fingerprint_name = "unbatch"

    def __init__(self, parent: IterDataset[Any]):
        super().__init__(parent, Unbatch())

    def __str__(self) -> str:
        return "UnbatchIterDataset"

    def fingerprint_arguments(self) -> dict[str, Any]:
        return {}

    def infer_element_spec(self) -> Any:
        return tree.map_leaves(
            lambda leaf: ShapeDtypeStruct(leaf.shape[1:], leaf.dtype),
            get_element_spec(self._parent),
        )
