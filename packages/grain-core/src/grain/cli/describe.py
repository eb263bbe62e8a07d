"""Description of an element: path, type and short value of each leaf."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from grain.cli.output import printable
from grain.observe.page.preview import safe_repr

# The number of items shown of a list of nested items.
_ITEMS = 3
_PREVIEW = 400
_SMALL_ARRAY = 64
_PLAIN = (bool, int, float, str, type(None))


@dataclass(frozen=True, kw_only=True)
class Leaf:
    """One leaf of an element.

    Attributes:
        path: The path, such as `meta.author` or `boxes[0]`; empty for the element itself.
        type: The dtype, or the type of a value without dtype.
        shape: The shape; the length of text and bytes; None for a scalar.
        text: The value in one short line, safe to print.
        value: The value if it is small and JSON-compatible, else None.
    """

    path: str
    type: str
    shape: tuple[int, ...] | None
    text: str
    value: Any = None

    def as_data(self) -> dict[str, Any]:
        """Return the leaf as JSON-compatible data."""
        shape = None if self.shape is None else list(self.shape)
        return {
            "path": self.path,
            "type": self.type,
            "shape": shape,
            "text": self.text,
            "value": self.value,
        }

    def row(self) -> tuple[str, str, str]:
        """Return the leaf as a table row: path, type with shape, and value."""
        shape = ""
        if self.shape is not None:
            shape = f"[{', '.join(map(str, self.shape))}]"
        return self.path, f"{self.type}{shape}", self.text


def leaves_of(element: Any, path: str = "") -> Iterator[Leaf]:
    """Yield the leaves of an element in order.

    Example:
        >>> for leaf in leaves_of({"ids": np.arange(3), "meta": {"text": "abc"}}):
        ...     print(leaf.row())
        ('ids', 'int64[3]', '[0 1 2]')
        ('meta.text', 'str[3]', "'abc'")
    """
    if isinstance(element, dict) and element:
        for key, value in element.items():
            name = key if isinstance(key, str) and key.isprintable() and key else repr(key)
            yield from leaves_of(value, f"{path}.{name}" if path else name)
    elif isinstance(element, (list, tuple)) and _shape(element) is None:
        for number, value in enumerate(element[:_ITEMS]):
            yield from leaves_of(value, f"{path}[{number}]")
        if len(element) > _ITEMS:
            more = len(element) - _ITEMS
            yield Leaf(path=f"{path}[{_ITEMS}:]", type="…", shape=None, text=f"{more} more")
    else:
        yield _leaf(element, path)


def _leaf(value: Any, path: str) -> Leaf:
    if isinstance(value, (np.ndarray, np.generic)):
        text = np.array2string(
            np.asarray(value), threshold=8, edgeitems=2, separator=" ", max_line_width=10**6
        )
        small = value.size <= _SMALL_ARRAY and value.dtype.kind in "biufU"
        return Leaf(
            path=path,
            type=str(value.dtype),
            shape=value.shape if isinstance(value, np.ndarray) else None,
            text=_one_line(text),
            value=_json(value.tolist()) if small else None,
        )
    kind = type(value)
    shape = (len(value),) if isinstance(value, (str, bytes)) else _shape(value)
    if isinstance(value, (str, bytes)):
        text = repr(value[:_PREVIEW]) + ("…" if len(value) > _PREVIEW else "")
    elif isinstance(value, (list, tuple)) and len(value) > _ITEMS * 4:
        text = f"{list(value[: _ITEMS * 2])!r}"[:-1] + ", …]"
    else:
        text = safe_repr(value, _PREVIEW)
    small = isinstance(value, _PLAIN) or (shape is not None and prod(shape) <= _SMALL_ARRAY)
    return Leaf(
        path=path,
        type="None" if value is None else kind.__name__,
        shape=shape,
        text=_one_line(text),
        value=_json(value) if small and not isinstance(value, bytes) else None,
    )


def _shape(value: Any) -> tuple[int, ...] | None:
    """Return the shape of a regular nested list of plain values, else None."""
    if not isinstance(value, (list, tuple)):
        return None
    if all(isinstance(item, _PLAIN) for item in value):
        return (len(value),)
    shapes = {_shape(item) for item in value}
    inner = shapes.pop()
    return None if shapes or inner is None else (len(value), *inner)


def _one_line(text: str) -> str:
    text = " ".join(text.split())
    # The repr of a user's class may contain terminal control sequences.
    return printable(text[:_PREVIEW])


def _json(value: Any) -> Any:
    """Return a value with None for everything that JSON lacks, such as NaN."""
    if isinstance(value, float):
        return value if value - value == 0 else None
    if isinstance(value, (list, tuple)):
        return [_json(item) for item in value]
    return value if isinstance(value, _PLAIN) else None
