"""Elements, functions and transforms of random programs; all of them survive the way to a worker."""

from __future__ import annotations

import collections
import decimal
import enum
import fractions
from collections.abc import Callable
from typing import Any

import numpy as np

import grain

Point = collections.namedtuple("Point", ["x", "y"])


class Colour(enum.Enum):
    """An enumeration."""

    RED = 1
    BLUE = 2


def number_of(element: Any) -> int:
    """Return a number that depends on an element of any structure."""
    match element:
        case None:
            return 0
        case dict():
            return sum(number_of(child) for child in element.values())
        case list() | tuple() | set() | frozenset():
            return sum(number_of(child) for child in element)
        case str() | bytes():
            return len(element)
        case enum.Enum():
            return int(element.value)
    array = np.asarray(element)
    if array.dtype.kind in "OUSVmM":
        return int(array.size)
    return int(abs(array).astype(np.int64).sum())


def _to_dict(x: Any) -> Any:
    return {"a": x, "b": {"c": np.float32(number_of(x))}}


def _to_row(x: Any) -> Any:
    return np.arange(3) + number_of(x)


def _to_pair(x: Any) -> Any:
    return (x, [number_of(x)])


def _none_sometimes(x: Any) -> Any:
    return None if number_of(x) % 4 == 1 else x


def _fail_sometimes(x: Any) -> Any:
    if number_of(x) % 11 == 7:
        raise KeyError("the function fails here")
    return x


FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "dict": _to_dict,
    "row": _to_row,
    "pair": _to_pair,
    "none": _none_sometimes,
    "number": number_of,
    "fail": _fail_sometimes,
}

# Elements of unusual structure, by the name of their source.
ODD_TREES: dict[str, Callable[[int], Any]] = {
    "named": lambda i: Point(i, np.float32(i)),
    "empty_nodes": lambda i: {"a": {}, "b": [], "c": (), "x": i},
    "integer_keys": lambda i: {2: i, 1: float(i)},
    "text": str,
    "long_text": lambda i: "x" * i,
    "bytes": lambda i: bytes([i % 256]) * (i % 3),
    "bool": lambda i: i % 2 == 0,
    "scalar_array": np.array,
    "objects": lambda i: np.array([i, None], dtype=object),
    "dates": lambda i: np.datetime64(i, "D"),
    "complex": lambda i: complex(i, 1),
    "records": lambda i: np.array((i, 1.5), dtype=[("a", "i4"), ("b", "f8")]),
    "no_rows": lambda i: np.zeros((0, 3), np.float16),
    "ragged": lambda i: np.arange(i % 3),
    "none_leaf": lambda i: {"a": i, "b": None},
    "none_sometimes": lambda i: {"a": i, "b": None if i % 2 else i},
    "unsorted": lambda i: {"b": i, "a": {"d": 1, "c": i}},
    "key_order": lambda i: {"b": i, "a": -i} if i % 2 else {"a": -i, "b": i},
    "deep": lambda i: (((({"a": [i]},),), [[i, (i,)]]),),
    "small_integers": lambda i: np.int8(i),
    "number_types": lambda i: [np.int16(i), np.uint8(i), np.float32(i), i, float(i)][i % 5],
    "large": lambda i: 2**62 + i,
    "huge": lambda i: 2**70 + i,
    "ordered": lambda i: collections.OrderedDict(b=i, a=i + 1),
    "default": lambda i: collections.defaultdict(int, b=i, a=i + 1),
    "fraction": lambda i: fractions.Fraction(i, 3),
    "decimal": lambda i: {"d": decimal.Decimal(i)},
    "enum": lambda i: Colour.RED if i % 2 else Colour.BLUE,
    "set": lambda i: frozenset([i, i + 1]),
    "range": range,
    "lists_and_tuples": lambda i: [i, i] if i % 2 else (i, i),
    "rows_and_lists": lambda i: np.arange(2) + i if i % 2 else [i, i + 1],
    "keys_vary": lambda i: {"a": i} if i % 3 else {"a": i, "b": i},
    "lengths_vary": lambda i: [i] * (1 + i % 2),
    "images": lambda i: {"image": np.full((2, 2, 3), i, np.uint8), "label": np.int64(i)},
    "fortran": lambda i: np.asfortranarray(np.arange(6).reshape(2, 3) + i),
    "big_endian": lambda i: np.arange(2, dtype=">i4") + i,
    "nan": lambda i: float("nan") if i % 2 else float(i),
}


def draw(x: Any, rng: np.random.Generator) -> Any:
    """Return a number that depends on an element and a draw."""
    return number_of(x) * 1000 + int(rng.integers(0, 1000))


def with_index(i: int, x: Any) -> Any:
    """Return an index and an element."""
    return (int(i), x)


def tokens(x: Any) -> Any:
    """Return between one and five tokens."""
    return {"tokens": np.arange(number_of(x) % 5 + 1) + 1}


class Keep:
    """A predicate that drops multiples of a number."""

    def __init__(self, modulus: int):
        self._modulus = modulus

    def __call__(self, x: Any) -> bool:
        """Return whether an element is kept."""
        return number_of(x) % self._modulus != 0


class Pieces(grain.experimental.FlatMapTransform):
    """A split of an element into none or more copies."""

    def __init__(self, fan_out: int):
        self.max_fan_out = fan_out

    def flat_map(self, element: Any) -> list[Any]:
        """Return copies of an element."""
        return [element] * (number_of(element) % (self.max_fan_out + 1))


class _Map(grain.transforms.Map):
    def __init__(self, name: str):
        self._function = FUNCTIONS[name]

    def map(self, element: Any) -> Any:
        return self._function(element)


class _MapWithIndex(grain.transforms.MapWithIndex):
    def map_with_index(self, index: int, element: Any) -> Any:
        return (int(index), element)


class _RandomMap(grain.transforms.RandomMap):
    def random_map(self, element: Any, rng: np.random.Generator) -> Any:
        return draw(element, rng)


class _Filter(grain.transforms.Filter):
    def __init__(self, modulus: int):
        self._keep = Keep(modulus)

    def filter(self, element: Any) -> bool:
        return self._keep(element)


# Operations of loaders, by name.
OPERATIONS: dict[str, Callable[..., Any]] = {
    "map": _Map,
    "map_with_index": _MapWithIndex,
    "random_map": _RandomMap,
    "filter": _Filter,
    "flat_map": Pieces,
    "batch": grain.transforms.Batch,
}
