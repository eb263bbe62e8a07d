"""Checks whether arrays can be divided over a mesh, and messages that name the leaf and dimension if not."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any


def each_leaf(
    function: Callable[[str, Any, Any], Any], places: Any, is_place: Any, tree: Any
) -> Any:
    """Apply `function(path, place, leaf)` to each leaf of `tree`; `places` is a prefix of it."""
    from jax.tree_util import keystr, tree_map_with_path

    def below(prefix: Any, place: Any, subtree: Any) -> Any:
        return tree_map_with_path(
            lambda path, leaf: function("element" + keystr((*prefix, *path)), place, leaf), subtree
        )

    return tree_map_with_path(below, places, tree, is_leaf=is_place)


def undivided(element: Any, shardings: Any) -> str | None:
    """Return why `jax.device_put` refused an element, if its shapes are the reason."""
    from jax.sharding import NamedSharding

    found: list[str] = []

    def look(path: str, sharding: Any, leaf: Any) -> None:
        shape = getattr(leaf, "shape", ())
        if isinstance(sharding, NamedSharding):
            found.extend(problems(path, shape, sharding, shard_counts(sharding)))

    try:
        each_leaf(look, shardings, None, element)
    except (TypeError, ValueError, KeyError):
        return None  # The structures differ, which the error of JAX says.
    return found[0] if found else None


def describe_mesh(mesh: Any) -> str:
    """Return the axes of a mesh and their sizes: `data=4, model=2`."""
    return ", ".join(f"{name}={size}" for name, size in mesh.shape.items())


def axes_of(spec: Any, dimension: int) -> tuple[str, ...]:
    """Return the names of the mesh axes over which a dimension is divided."""
    names = spec[dimension] if dimension < len(spec) else None
    if isinstance(names, str):
        return (names,)
    return tuple(names) if isinstance(names, tuple) else ()


def shard_counts(sharding: Any) -> list[int]:
    """Return the number of shards of each dimension of the spec over the whole mesh."""
    sizes = sharding.mesh.shape
    return [
        math.prod(sizes[name] for name in axes_of(sharding.spec, dimension))
        for dimension in range(len(sharding.spec))
    ]


def local_shard_counts(sharding: Any) -> list[int]:
    """Return the number of shards of each dimension on devices of this process."""
    # An array with one row per shard shows which shards a device has.
    shape = tuple(shard_counts(sharding))
    indices = sharding.addressable_devices_indices_map(shape).values()
    return [
        len({index[dimension].indices(size) for index in indices})
        for dimension, size in enumerate(shape)
    ]


def problems(path: str, shape: tuple[int, ...], sharding: Any, counts: list[int]) -> list[str]:
    """Return why an array of this shape cannot be divided into `counts` shards per dimension."""
    spec, mesh = sharding.spec, sharding.mesh
    placed = f"Its shape is {tuple(shape)}, its spec {spec}, the mesh {describe_mesh(mesh)}."
    if len(spec) > len(shape):
        return [
            f"{path} has {len(shape)} dimensions, and its spec divides {len(spec)}. {placed} Give it "
            "another spec, such as PartitionSpec() to replicate it."
        ]
    found = []
    for dimension, count in enumerate(counts):
        size, names = shape[dimension], axes_of(spec, dimension)
        if size is None or size % count == 0:
            continue
        advice = (
            f" Make batches of a multiple of {count} elements, and leave out or fill up a smaller last "
            "one: `batch(..., drop_remainder=True)` or `grain.experimental.batch_and_pad`."
            if dimension == 0
            else ""
        )
        found.append(
            f"Dimension {dimension} of {path} has size {size}, which does not divide by {count}, "
            f"{_divisor(mesh, names, count)}. {placed}{advice}"
        )
    return found


def _divisor(mesh: Any, names: tuple[str, ...], count: int) -> str:
    total = math.prod(mesh.shape[name] for name in names)
    if len(names) == 1:
        axes = f"mesh axis {names[0]!r}"
    else:
        axes = "mesh axes " + " * ".join(f"{name!r} ({mesh.shape[name]})" for name in names)
    if count == total:
        return f"the size of {axes}"
    return f"the part of {axes} that is in this process ({total} in all processes)"
