r"""Encoding of elements as records, since ArrayRecord files hold bytes only.

A record is the eight bytes `\x89GRAIN1\n`, the length of a header as four bytes (little-endian), the
header, and data. The header is JSON in ASCII and represents the element; a value that JSON cannot
represent is an object with one key that starts with `$`:

| in the header | means |
| --- | --- |
| `{"$array": [dtype, shape, offset]}` | a numpy array; its bytes in C order start at `offset` in the data |
| `{"$scalar": [dtype, offset]}` | a numpy scalar |
| `{"$bytes": [offset, length]}` | bytes |
| `{"$tuple": […]}` | a tuple |
| `{"$float": "nan"}` | a float that is not finite: `nan`, `inf` or `-inf` |
| `{"$dict": [[key, value], …]}` | a dict with a key that is not text, or starts with `$` |

A dtype is numpy's `dtype.str`, such as `<f4`. Decoding a record, unlike unpickling, runs no code that
its writer chose.
"""

from __future__ import annotations

import json
import math
import struct
from typing import Any

import numpy as np

MAGIC = b"\x89GRAIN1\n"
_LENGTH = struct.Struct("<I")
_START = len(MAGIC) + _LENGTH.size
# Numbers, booleans, dates, and fixed-length text and bytes. Other kinds are objects, or exist only
# after some other library has been imported.
_DTYPE_KINDS = "biufcmMSU"


def encode_record(element: Any) -> bytes:
    r"""Return an element of dicts, lists, tuples, text, bytes, numbers, None and arrays as bytes.

    Example:
        >>> record = encode_record({"image": np.zeros((2, 2), np.uint8), "label": 7})
        >>> record[12:]
        b'{"image": {"$array": ["|u1", [2, 2], 0]}, "label": 7}\x00\x00\x00\x00'
    """
    data: list[bytes] = []
    header = json.dumps(_Encoder(data).value(element, "")).encode()
    return b"".join((MAGIC, _LENGTH.pack(len(header)), header, *data))


def decode_record(record: Any) -> Any:
    """Return the element that `encode_record` encoded; return anything else unchanged.

    Example:
        >>> decode_record(encode_record({"tokens": np.arange(3), "text": "abc"}))
        {'tokens': array([0, 1, 2]), 'text': 'abc'}
        >>> decode_record(b"of another writer")
        b'of another writer'
    """
    if not isinstance(record, bytes) or not record.startswith(MAGIC):
        return record
    try:
        (length,) = _LENGTH.unpack_from(record, len(MAGIC))
        data = memoryview(record)[_START + length :]
        return json.loads(
            record[_START : _START + length], object_hook=lambda node: _decoded(node, data)
        )
    except (struct.error, ValueError, TypeError) as error:
        raise ValueError(
            f"Cannot decode a record of {len(record)} bytes that starts with grain's magic bytes:"
            f" {error}. The file is damaged, or was written by a later version."
        ) from error


class _Encoder:
    """Conversion of one element to JSON values, with all binary content collected in `data`."""

    def __init__(self, data: list[bytes]) -> None:
        self._data = data
        self._size = 0

    def value(self, value: Any, where: str) -> Any:
        """Return the JSON form of a value; `where`, its path in the element, is for errors."""
        kind = type(value)
        if value is None or kind in (bool, int, str):
            return value
        if kind is float:
            return value if math.isfinite(value) else {"$float": str(value)}
        if kind is dict:
            return self._dict(value, where)
        if kind in (list, tuple):
            items = [self.value(item, f"{where}[{i}]") for i, item in enumerate(value)]
            return items if kind is list else {"$tuple": items}
        if isinstance(value, (np.ndarray, np.generic)) and value.dtype.kind in _DTYPE_KINDS:
            offset = self._append(value.tobytes())
            if isinstance(value, np.generic):
                return {"$scalar": [value.dtype.str, offset]}
            return {"$array": [value.dtype.str, list(value.shape), offset]}
        if isinstance(value, (bytes, bytearray, memoryview)):
            content = bytes(value)
            return {"$bytes": [self._append(content), len(content)]}
        name = f"dtype {value.dtype}" if isinstance(value, np.ndarray) else kind.__name__
        raise TypeError(
            f"{'The element' if not where else f'The value at {where}'} is of {name}, which a record"
            " cannot hold: expected dicts, lists, tuples, text, bytes, numbers, None and numpy arrays"
            " of them. Convert it first, or leave it out."
        )

    def _dict(self, value: dict[Any, Any], where: str) -> Any:
        items = [(key, self.value(item, f"{where}[{key!r}]")) for key, item in value.items()]
        if all(type(key) is str and not key.startswith("$") for key in value):
            return dict(items)
        return {"$dict": [[self.value(key, where), item] for key, item in items]}

    def _append(self, content: bytes) -> int:
        offset = self._size
        self._data.append(content)
        self._size += len(content)
        return offset


def _decoded(node: dict[str, Any], data: memoryview) -> Any:
    if len(node) != 1:
        return node
    ((key, value),) = node.items()
    if not key.startswith("$"):
        return node
    if key == "$array":
        return _array(data, *value)
    if key == "$scalar":
        dtype, offset = value
        return _array(data, dtype, [], offset)[()]
    if key == "$bytes":
        offset, length = value
        content = bytes(data[offset : offset + length])
        if len(content) != length:
            raise ValueError("the data is too short")
        return content
    if key == "$tuple":
        return tuple(value)
    if key == "$float":
        return float(value)
    if key == "$dict":
        return dict(value)
    raise ValueError(f"the key {key!r} is unknown")


def _array(data: memoryview, dtype: str, shape: list[int], offset: int) -> np.ndarray[Any, Any]:
    size = np.dtype(dtype).itemsize * math.prod(shape)
    if not size:  # no elements, or text of no length
        return np.zeros(shape, dtype)
    content = data[offset : offset + size]
    if len(content) != size:
        raise ValueError("the data is too short")
    # A copy: a view of the record would be read-only.
    return np.frombuffer(content, dtype).reshape(shape).copy()
