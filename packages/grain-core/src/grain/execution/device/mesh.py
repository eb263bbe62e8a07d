"""`to_mesh`: the elements of each process become its part of arrays that span a mesh of devices."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from grain.dataset.base import IterDataset
from grain.dataset.element_spec import ShapeDtypeStruct
from grain.execution.device.dividing import (
    axes_of,
    describe_mesh,
    each_leaf,
    local_shard_counts,
    problems,
    shard_counts,
)
from grain.execution.device.placing import place_ahead, require_jax

# Kinds of numpy types without a device representation: objects, text, bytes, dates and times.
_NO_NUMBERS = "OSUMm"


def to_mesh(
    ds: IterDataset[Any],
    mesh: Any,
    spec: Any,
    *,
    cpu_buffer_size: int = 4,
    device_buffer_size: int = 2,
) -> IterDataset[Any]:
    """Make global arrays of elements, over all devices of a mesh, ahead of the consumer.

    Each process contributes its elements to arrays of the combined size, as
    `jax.make_array_from_process_local_data` does: with the first dimension divided over two processes,
    batches of 16 become batches of 32. In one process, elements keep their shapes.

    All processes must have the same number of elements of the same shapes; see `drop_remainder` of
    `batch`, and `grain.experimental.batch_and_pad`.

    Args:
        ds: The dataset of this process.
        mesh: A `jax.sharding.Mesh`.
        spec: A `jax.sharding.PartitionSpec` for all leaves of the elements, or a tree of them that is a
            prefix of the elements: `{"image": P("data"), "mean": P()}`.
        cpu_buffer_size: Elements kept ready in host memory.
        device_buffer_size: Elements kept ready on the devices, besides the one in use.
    """
    jax = require_jax("to_mesh")
    if not isinstance(mesh, jax.sharding.Mesh):
        raise TypeError(
            f"mesh must be a jax.sharding.Mesh, got {mesh!r} of type {type(mesh).__name__}. "
            "`jax.make_mesh((8,), ('data',))` makes one of 8 devices."
        )
    shardings = jax.tree_util.tree_map(
        lambda one: _sharding(mesh, one), spec, is_leaf=lambda node: node is None or _is_spec(node)
    )
    placement = MeshPlacement(mesh, spec, shardings)
    return place_ahead(ds, placement, cpu_buffer_size, device_buffer_size)


def _is_spec(node: Any) -> bool:
    jax = require_jax("to_mesh")
    return isinstance(node, jax.sharding.PartitionSpec)


def _sharding(mesh: Any, spec: Any) -> Any:
    jax = require_jax("to_mesh")
    if not _is_spec(spec):
        raise TypeError(
            f"spec must be a jax.sharding.PartitionSpec or a tree of them, got {spec!r} of type "
            f"{type(spec).__name__}. PartitionSpec() has all of an array on every device."
        )
    for dimension in range(len(spec)):
        for name in axes_of(spec, dimension):
            if name not in mesh.shape:
                axes = ", ".join(map(repr, mesh.shape))
                raise ValueError(f"{spec} names the mesh axis {name!r}; the mesh has {axes}.")
    return jax.sharding.NamedSharding(mesh, spec)


class _Leaf:
    """One leaf of the elements: its path, its sharding, and the shapes found to fit."""

    def __init__(self, path: str, sharding: Any):
        self.path = path
        self.sharding = sharding
        self._fitting: set[tuple[int, ...]] = set()
        self._counts = local_shard_counts(sharding)

    def place(self, value: Any) -> Any:
        jax = require_jax("to_mesh")
        array = value if isinstance(value, (np.ndarray, jax.Array)) else np.asarray(value)
        if array.shape not in self._fitting:
            self._check(array)
        return jax.make_array_from_process_local_data(self.sharding, array)

    def _check(self, array: Any) -> None:
        if array.dtype.kind in _NO_NUMBERS:
            raise TypeError(
                f"{self.path} is an array of {array.dtype}, which no device can hold. Remove it, or convert "
                "it to numbers, with `map` before `to_mesh`."
            )
        if 0 in self._counts:
            raise ValueError(
                f"This process has no device in the mesh over which {self.path} is divided."
            )
        found = problems(self.path, array.shape, self.sharding, self._counts)
        if found:
            raise ValueError(found[0])
        self._fitting.add(array.shape)

    def global_shape(self, shape: tuple[int | None, ...]) -> tuple[int | None, ...]:
        out = list(shape)
        totals = shard_counts(self.sharding)
        for dimension, (local, total) in enumerate(zip(self._counts, totals, strict=True)):
            size = out[dimension]
            out[dimension] = None if size is None else size * total // local
        return tuple(out)


def _look(value: Any) -> str:
    array = value if hasattr(value, "dtype") else np.asarray(value)
    return f"{array.dtype}{list(array.shape)}"


@dataclasses.dataclass(frozen=True, repr=False)
class MeshPlacement:
    """Placement on a mesh: each process contributes its part."""

    mesh: Any
    tree: Any
    shardings: Any
    # Leaves by the structure of the elements; mostly there is one structure.
    _known: dict[Any, list[_Leaf]] = dataclasses.field(
        default_factory=dict, init=False, compare=False
    )

    def __repr__(self) -> str:
        return f"to_mesh({describe_mesh(self.mesh)}; {self.tree})"

    def place(self, element: Any) -> Any:
        """Return the element as arrays over the mesh."""
        jax = require_jax("to_mesh")
        values, structure = jax.tree_util.tree_flatten(element)
        leaves = self._known.get(structure)
        if leaves is None:
            leaves = self._known[structure] = self._leaves(element)
        placed = [leaf.place(value) for leaf, value in zip(leaves, values, strict=True)]
        return structure.unflatten(placed)

    def spec(self, spec: Any) -> Any:
        """Return the shapes of the arrays of all processes together."""
        jax = require_jax("to_mesh")
        values, structure = jax.tree_util.tree_flatten(spec)
        return structure.unflatten(
            ShapeDtypeStruct(
                leaf.global_shape(value.shape), jax.dtypes.canonicalize_dtype(value.dtype)
            )
            for leaf, value in zip(self._leaves(spec), values, strict=True)
        )

    def _leaves(self, element: Any) -> list[_Leaf]:
        jax = require_jax("to_mesh")
        found: list[_Leaf] = []
        try:
            each_leaf(
                lambda path, sharding, _: found.append(_Leaf(path, sharding)),
                self.shardings,
                None,
                element,
            )
        except (TypeError, ValueError, KeyError) as error:
            raise ValueError(
                f"The spec {self.tree} is no prefix of the elements, which look like "
                f"{jax.tree_util.tree_map(_look, element)}. Give one PartitionSpec for all leaves, or "
                "a tree with the same names."
            ) from error
        return found
