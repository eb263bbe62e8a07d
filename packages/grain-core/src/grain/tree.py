"""Trees of elements: dict, list, tuple, namedtuple, dataclass and None are nodes, the rest are leaves.

When JAX is already imported, the types registered with it are nodes too; it is never imported here.
As in JAX, a rebuilt dictionary has its keys in sorted order.
"""

from __future__ import annotations

import contextlib
import dataclasses
import sys
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from grain.memory.allocation import allocate

_SCALARS = (int, float, complex, bool, str, bytes, np.generic)
# The number of items of a long list from which its size is estimated.
_SAMPLE = 32
# The estimate for an object of unknown size.
_SOME_BYTES = 32


def map_leaves(function: Callable[[Any], Any], tree: Any) -> Any:
    """Return `tree` with `function` applied to every leaf.

    >>> map_leaves(lambda x: x + 1, {"a": 1, "b": (2, None)})
    {'a': 2, 'b': (3, None)}
    """
    node = _open_node(tree)
    if node is None:
        return function(tree)
    return node.rebuild([map_leaves(function, child) for child in node.children])


def leaves(tree: Any) -> Iterator[Any]:
    """Yield the leaves of `tree` from left to right.

    >>> list(leaves({"a": 1, "b": (2, None, [3])}))
    [1, 2, 3]
    """
    node = _open_node(tree)
    if node is None:
        yield tree
    else:
        for child in node.children:
            yield from leaves(child)


def nbytes(tree: Any) -> int:
    """Estimate the memory of the arrays, strings and bytes of `tree`.

    >>> nbytes({"image": np.zeros((2, 3)), "label": b"seven"})
    53
    """
    if type(tree) is int or type(tree) is float:
        return _SOME_BYTES
    try:
        return _nbytes(tree)
    except Exception:  # A user's class failed, or the tree is too deep; an estimate suffices.
        return _SOME_BYTES


def _nbytes(tree: Any) -> int:
    if isinstance(tree, np.ndarray):
        return tree.nbytes
    if isinstance(tree, (str, bytes, bytearray)):
        return len(tree)
    if type(tree) in (list, tuple) and len(tree) > _SAMPLE:
        # Sampled: a list may hold thousands of tokens.
        return sum(map(_nbytes, tree[:_SAMPLE])) * len(tree) // _SAMPLE
    node = _open_node(tree)
    if node is not None:
        return sum(map(_nbytes, node.children))
    size = getattr(tree, "nbytes", None)
    return size if isinstance(size, int) else _SOME_BYTES


def stack(elements: Sequence[Any]) -> Any:
    """Stack trees of one structure, leaf by leaf, along a new first dimension.

    >>> stack([{"a": 1, "b": [2.0]}, {"a": 3, "b": [4.0]}])
    {'a': array([1, 3]), 'b': [array([2., 4.])]}
    """
    try:
        return _stack(elements)
    except _MismatchError as mismatch:
        raise ValueError(
            # Message kept from google/grain 0.2.18
            "Expected all input elements to have the same structure but got:\n"
            f"{mismatch}\n{_location(elements)}"
            "To batch elements of different shapes, pad them first or pass `batch_fn`."
        ) from None


class _MismatchError(Exception):
    """Elements differ in structure or shape."""


def _location(elements: Sequence[Any]) -> str:
    """Return a sentence that locates the difference in dictionaries of one structure."""
    keys: list[Any] = []
    while all(
        type(element) is dict and element.keys() == elements[0].keys() for element in elements
    ):
        for key in elements[0]:
            column = [element[key] for element in elements]
            try:
                _stack(column)
            except _MismatchError:
                keys.append(key)
                elements = column
                break
        else:
            break
    return (
        f"The difference is at {''.join(f'[{key!r}]' for key in keys)} of each element.\n"
        if keys
        else ""
    )


def _stack(elements: Sequence[Any]) -> Any:
    first = elements[0]
    kind = type(first)
    if kind is np.ndarray:
        return _stack_arrays(elements)
    if isinstance(first, _SCALARS):
        return _stack_scalars(elements)
    if kind is dict:
        return _stack_dicts(elements)
    if kind is list or kind is tuple:
        return kind(map(_stack, _columns(elements, kind)))
    if first is None and any(element is not None for element in elements):
        return _stack_leaves(elements)
    node = _open_node(first)
    if node is None:
        return _stack_leaves(elements)
    columns: list[list[Any]] = [[] for _ in node.children]
    for element in elements:
        children = _children_like(node, element) if type(element) is kind else None
        if children is None:
            raise _MismatchError(f"{_describe(first)}\nand\n{_describe(element)}")
        for column, child in zip(columns, children, strict=True):
            column.append(child)
    return node.rebuild([_stack(column) for column in columns])


def _children_like(node: _Node, element: Any) -> Sequence[Any] | None:
    """Return the children of an element in the order of `node`'s, or None if they do not match."""
    opened = _open_node(element)
    if opened is None or len(opened.children) != len(node.children):
        return None
    if opened.label == node.label:
        return opened.children
    if isinstance(element, dict) and element.keys() == set(node.label):
        return [element[key] for key in node.label]
    return None


def _columns(elements: Sequence[Any], kind: Any) -> Iterator[tuple[Any, ...]]:
    """Return the items at each position of lists or tuples of one length."""
    first = elements[0]
    for element in elements:
        if type(element) is not kind or len(element) != len(first):
            raise _MismatchError(f"{_describe(first)}\nand\n{_describe(element)}")
    return zip(*elements, strict=True)


def _stack_dicts(elements: Sequence[dict[Any, Any]]) -> dict[Any, Any]:
    first = elements[0]
    size = len(first)
    for element in elements:
        if type(element) is not dict or len(element) != size:
            raise _MismatchError(f"{_describe(first)}\nand\n{_describe(element)}")
    try:
        columns = {key: [element[key] for element in elements] for key in keys_in_order(first)}
    except KeyError:
        other = next(element for element in elements if element.keys() != first.keys())
        raise _MismatchError(f"{_describe(first)}\nand\n{_describe(other)}") from None
    return {key: _stack(column) for key, column in columns.items()}


def _stack_arrays(elements: Sequence[np.ndarray[Any, Any]]) -> np.ndarray[Any, Any]:
    first = elements[0]
    shape, dtype = first.shape, first.dtype
    if not dtype.isnative:
        return _stack_leaves(elements)  # Their stack has native byte order.
    if shape and set(map(type, elements)) == {np.ndarray}:
        # Concatenated rows are the stack, with its first two dimensions merged. All else that arrays may
        # differ in is an error of `len` or `concatenate`, and described below.
        with contextlib.suppress(TypeError, ValueError):
            if set(map(len, elements)) == {shape[0]}:
                result = allocate((len(elements), *shape), dtype)
                merged = result.reshape(len(elements) * shape[0], *shape[1:])
                np.concatenate(elements, out=merged, casting="no")
                return result
    for element in elements:
        if type(element) is not np.ndarray or element.dtype is not dtype:
            return _stack_leaves(elements)
        if element.shape != shape:
            raise _MismatchError(f"{_describe(first)}\nand\n{_describe(element)}")
    result = allocate((len(elements), *shape), dtype)
    np.stack(elements, out=result)
    return result


def _stack_scalars(elements: Sequence[Any]) -> np.ndarray[Any, Any]:
    if len(set(map(type, elements))) > 1:
        return _stack_leaves(elements)
    return np.array(elements)


def _stack_leaves(elements: Sequence[Any]) -> np.ndarray[Any, Any]:
    arrays = [np.asanyarray(element) for element in elements]
    shape = arrays[0].shape
    for array, element in zip(arrays, elements, strict=True):
        # None among scalars counts as a scalar: the result is an array of objects.
        is_node = element is not None and _open_node(element) is not None
        if type(elements[0]) is np.ndarray and type(element) in (list, tuple):
            is_node = array.dtype == object  # A sequence of numbers is stacked like an array.
        if array.shape != shape or is_node:
            raise _MismatchError(f"{_describe(elements[0])}\nand\n{_describe(element)}")
    return np.stack(arrays)


class _Node(NamedTuple):
    """The contents of a node.

    Attributes:
        children: The children, in order.
        rebuild: Returns a node of as many children.
        label: What two nodes of one structure have in common, such as the keys of a mapping.
    """

    children: Sequence[Any]
    rebuild: Callable[[Sequence[Any]], Any]
    label: Any = None


_NONE = _Node((), lambda _: None)


def _open_node(tree: Any) -> _Node | None:
    """Return the contents of a node, or None for a leaf."""
    if tree is None:
        return _NONE
    kind = type(tree)
    if kind is np.ndarray or isinstance(tree, _SCALARS):
        return None
    if kind is dict:
        keys = keys_in_order(tree)
        return _Node(
            [tree[key] for key in keys],
            lambda children: dict(zip(keys, children, strict=True)),
            keys,
        )
    if kind is list:
        return _Node(tree, list)
    if kind is tuple:
        return _Node(tree, tuple)
    if kind is OrderedDict or kind is defaultdict:
        return _open_mapping(tree)
    return _open_other_node(tree)


def _open_other_node(tree: Any) -> _Node | None:
    kind: Any = type(tree)
    registered = _open_jax_node(tree)
    if registered is not None:
        return registered
    if isinstance(tree, tuple) and hasattr(kind, "_fields"):
        return _Node(tree, lambda children: kind(*children))
    if isinstance(tree, dict):
        return _open_mapping(tree)
    if isinstance(tree, (list, tuple)):
        return _Node(tree, kind)
    if dataclasses.is_dataclass(kind) and not getattr(kind, "is_tree_leaf", False):
        names = [field.name for field in dataclasses.fields(tree) if field.init]
        return _Node(
            [getattr(tree, name) for name in names],
            lambda children: dataclasses.replace(tree, **dict(zip(names, children, strict=True))),
        )
    return None


def keys_in_order(tree: dict[Any, Any]) -> list[Any]:
    """Return the keys of a dictionary, sorted if possible: insertion order must not matter."""
    try:
        return sorted(tree)
    except TypeError:
        return list(tree)


def _open_mapping(tree: dict[Any, Any]) -> _Node:
    kind: Any = type(tree)
    keys = list(tree) if isinstance(tree, OrderedDict) else keys_in_order(tree)
    # A defaultdict is rebuilt with its factory.
    first = (tree.default_factory,) if isinstance(tree, defaultdict) else ()
    return _Node(
        [tree[key] for key in keys],
        lambda children: kind(*first, zip(keys, children, strict=True)),
        keys,
    )


def _open_jax_node(tree: Any) -> _Node | None:
    tree_util: Any = getattr(sys.modules.get("jax"), "tree_util", None)
    flatten = getattr(tree_util, "tree_flatten", None)
    if flatten is None:
        return None
    # One level only: children are leaves here.
    children, structure = flatten(tree, is_leaf=lambda node: node is not tree)
    if len(children) == 1 and children[0] is tree:
        return None
    return _Node(children, structure.unflatten, structure)


def _describe(tree: Any) -> str:
    def leaf(value: Any) -> str:
        shape, dtype = getattr(value, "shape", None), getattr(value, "dtype", None)
        if dtype is None:
            return type(value).__name__
        return f"{type(value).__name__}<{dtype}>{list(shape or ())}"

    return repr(map_leaves(leaf, tree))
