"""Layout of elements in a shared-memory segment: a header that describes arrays, and the arrays.

A *table* is one of four layouts (`scalars`, `rows`, `columns`, `mixed`) and converts elements to arrays
and back. The header is a Python literal, as in numpy's file format, so that opening a segment runs no
code that its writer chose. Elements without a plain form are pickled; only a process that created the
source, or unpickled it, unpickles them.
"""

from __future__ import annotations

import ast
import hashlib
import importlib
import math
import pickle
import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.lib import format as npy_format

Arrays = dict[str, np.ndarray]

_MAGIC = b"GRAINME2"
_HEADER = struct.Struct("<8sQ")  # magic bytes, length of the description
_ALIGNMENT = 64


class Table(Protocol):
    """Elements stored in arrays."""

    arrays: Arrays

    def __len__(self) -> int: ...

    def read_one(self, index: int) -> Any:
        """Return one element."""

    def read_many(self, indices: np.ndarray) -> list[Any]:
        """Return elements in the order of `indices`."""
        ...

    def read_columns(self, indices: np.ndarray) -> Any:
        """Return elements stacked into arrays, or None if they do not stack."""


class _Scalars:
    """Only ints, or only floats, returned as Python numbers."""

    def __init__(self, arrays: Arrays) -> None:
        self.arrays = arrays
        self._values = arrays["values"]

    def __len__(self) -> int:
        return len(self._values)

    def read_one(self, index: int) -> Any:
        return self._values[index].item()

    def read_many(self, indices: np.ndarray) -> list[Any]:
        elements: list[Any] = self._values[indices].tolist()
        return elements

    def read_columns(self, indices: np.ndarray) -> Any:
        return self._values[indices]


class _Rows:
    """The rows of one array, returned as copies: writable, and independent of the mapping."""

    def __init__(self, arrays: Arrays) -> None:
        self.arrays = arrays
        self._values = arrays["values"]

    def __len__(self) -> int:
        return len(self._values)

    def read_one(self, index: int) -> Any:
        row = self._values[index]
        return row.copy() if isinstance(row, np.ndarray) else row

    def read_many(self, indices: np.ndarray) -> list[Any]:
        return list(self._values[indices])

    def read_columns(self, indices: np.ndarray) -> Any:
        return self._values[indices]


class _Columns:
    """The rows of several equally long arrays, as dicts."""

    def __init__(self, arrays: Arrays) -> None:
        self.arrays = arrays
        self._columns = {name: _Rows({"values": array}) for name, array in arrays.items()}

    def __len__(self) -> int:
        return len(next(iter(self._columns.values())))

    def read_one(self, index: int) -> dict[str, Any]:
        return {name: column.read_one(index) for name, column in self._columns.items()}

    def read_many(self, indices: np.ndarray) -> list[dict[str, Any]]:
        names = tuple(self._columns)
        columns = [column.read_many(indices) for column in self._columns.values()]
        return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]

    def read_columns(self, indices: np.ndarray) -> dict[str, Any]:
        return {name: column.read_columns(indices) for name, column in self._columns.items()}


class _Mixed:
    """Elements of any kind, each a tag and a range of bytes."""

    def __init__(self, arrays: Arrays, trusted: bool) -> None:
        self.arrays = arrays
        self._decoders = _DECODERS if trusted else (*_DECODERS[:_PICKLE], _refuse_pickle)
        self._tags = arrays["tags"]
        self._ends = arrays["ends"]
        self._bytes = arrays["bytes"].data

    def __len__(self) -> int:
        return len(self._tags)

    def read_one(self, index: int) -> Any:
        begin = int(self._ends[index - 1]) if index else 0
        return self._decoders[self._tags[index]](self._bytes[begin : self._ends[index]])

    def read_many(self, indices: np.ndarray) -> list[Any]:
        begins = np.where(indices > 0, self._ends[indices - 1], 0).tolist()
        ends = self._ends[indices].tolist()
        decoders, data = self._decoders, self._bytes
        return [
            decoders[tag](data[begin:end])
            for tag, begin, end in zip(self._tags[indices].tolist(), begins, ends, strict=True)
        ]

    def read_columns(self, indices: np.ndarray) -> None:
        return None


_NONE, _FALSE, _TRUE, _INT, _FLOAT, _STR, _BYTES, _PICKLE = range(8)
_DECODERS: tuple[Callable[[memoryview], Any], ...] = (
    lambda data: None,
    lambda data: False,
    lambda data: True,
    lambda data: int.from_bytes(data, "little", signed=True),
    lambda data: struct.unpack("<d", data)[0],
    lambda data: str(data, "utf-8", "surrogatepass"),
    bytes,
    pickle.loads,
)


def _refuse_pickle(data: memoryview) -> Any:
    raise ValueError(_PICKLED)


_PICKLED = (
    "it holds pickled elements, which are not loaded from memory attached by name. Send the source"
    " itself to the other process (it pickles to its name), or store arrays, numbers, text or bytes"
)


def _encode(position: int, element: Any) -> tuple[int, bytes]:
    # Exact types only: a subclass, or numpy's float64, must be restored with its type.
    kind = type(element)
    if element is None:
        return _NONE, b""
    if kind is bool:
        return (_TRUE if element else _FALSE), b""
    if kind is int:
        return _INT, element.to_bytes(element.bit_length() // 8 + 1, "little", signed=True)
    if kind is float:
        return _FLOAT, struct.pack("<d", element)
    if kind is str:
        return _STR, element.encode("utf-8", "surrogatepass")
    if kind is bytes:
        return _BYTES, element
    try:
        return _PICKLE, pickle.dumps(element, protocol=5)
    except Exception as error:
        raise TypeError(
            f"Element {position}, a {kind.__name__}, cannot be stored in shared memory, because it "
            f"cannot be pickled: {error}"
        ) from error


def lay_out(elements: Iterable[Any]) -> tuple[str, Arrays]:
    """Choose a table for the elements; return its name and its arrays."""
    if isinstance(elements, Mapping):
        return "columns", _columns(elements)
    if isinstance(elements, np.ndarray):
        return "rows", {"values": _plain("The array", elements)}
    if isinstance(elements, (str, bytes)) or not isinstance(elements, Iterable):
        raise TypeError(
            f"Elements must be a sequence, an array, or a dict of arrays, got {elements!r:.200}."
        )
    if not isinstance(elements, Sequence):
        elements = list(elements)
    kinds = {int} if isinstance(elements, range) else set(map(type, elements))
    if kinds == {int} or kinds == {float}:
        try:
            dtype = np.int64 if kinds == {int} else np.float64
            return "scalars", {"values": np.array(elements, dtype=dtype)}
        except OverflowError:
            pass
    return "mixed", _mixed(elements)


def _mixed(elements: Sequence[Any]) -> Arrays:
    tags = np.empty(len(elements), np.uint8)
    ends = np.empty(len(elements), np.int64)
    data = bytearray()
    for position, element in enumerate(elements):
        tags[position], encoded = _encode(position, element)
        data += encoded
        ends[position] = len(data)
    return {"tags": tags, "ends": ends, "bytes": np.frombuffer(data, np.uint8)}


def _columns(elements: Mapping[Any, Any]) -> Arrays:
    if not elements:
        raise ValueError("A dict of columns needs at least one column, got an empty dict.")
    columns = {}
    for name, column in elements.items():
        if not isinstance(name, str):
            raise TypeError(f"Column names must be strings, got {name!r}.")
        try:
            array = np.asanyarray(column)
        except ValueError as error:
            raise ValueError(
                f"Column {name!r} cannot be converted to an array: {error} Give a list of dicts instead."
            ) from error
        columns[name] = _plain(f"Column {name!r}", array)
    lengths = {name: len(column) for name, column in columns.items()}
    if len(set(lengths.values())) > 1:
        raise ValueError(f"All columns must have the same length, got {lengths}.")
    return columns


def _plain(what: str, array: np.ndarray) -> np.ndarray:
    if array.ndim == 0:
        raise TypeError(f"{what} must have at least one dimension, got {array!r}.")
    if array.dtype.hasobject:
        raise TypeError(
            f"{what} holds Python objects ({array.dtype}), which cannot be stored as an array. "
            "Convert it to a type of fixed size, or give a list of elements instead."
        )
    if isinstance(array, np.ma.MaskedArray):
        raise TypeError(
            f"{what} is masked, and masks are not stored. Fill it first, or give the mask as another"
            " column."
        )
    return np.ascontiguousarray(array)


def serialize(kind: str, arrays: Arrays) -> tuple[int, Callable[[memoryview], None]]:
    """Return the size of header and arrays in bytes, and a function that writes both."""
    digest = hashlib.blake2b(kind.encode(), digest_size=10)
    for name, array in arrays.items():
        digest.update(repr((name, array.dtype.str, array.shape)).encode())
        digest.update(_bytes_of(array))
    # Offsets count from the end of the header, whose length depends on them.
    entries, size = [], 0
    for name, array in arrays.items():
        entries.append((name, _dtype_to_literal(array.dtype), array.shape, size))
        size += _aligned(array.nbytes)
    description = repr({"kind": kind, "digest": digest.hexdigest(), "arrays": entries}).encode()
    start = _aligned(_HEADER.size + len(description))

    def write(memory: memoryview) -> None:
        _HEADER.pack_into(memory, 0, _MAGIC, len(description))
        memory[_HEADER.size : _HEADER.size + len(description)] = description
        for (_, _, _, offset), array in zip(entries, arrays.values(), strict=True):
            begin = start + offset
            memory[begin : begin + array.nbytes] = _bytes_of(array)

    return start + size, write


def open_table(name: str, memory: Any, *, trusted: bool) -> tuple[Table, str]:
    """Return the table in a segment's memory, and the digest of its contents.

    Args:
        name: The name of the segment, for errors.
        memory: Its contents.
        trusted: Whether pickled elements may be loaded.
    """
    size = len(memory)
    magic, length = _HEADER.unpack_from(memory) if size >= _HEADER.size else (b"", 0)
    if magic != _MAGIC:
        raise ValueError(
            f"The shared memory named {name!r} does not hold a SharedMemoryDataSource of this"
            " version: check the name."
        )
    try:
        if length > size - _HEADER.size:
            raise ValueError(f"its header of {length} bytes is cut off")
        header = ast.literal_eval(str(memory[_HEADER.size : _HEADER.size + length], "utf-8"))
        kind, digest, entries = header["kind"], header["digest"], header["arrays"]
        if not isinstance(digest, str):
            raise ValueError(f"its digest is {digest!r:.100}")
        arrays = _read_arrays(memory, _aligned(_HEADER.size + length), entries)
        _check_arrays(kind, arrays, check_elements=not trusted)
        table = _make_table(kind, arrays, trusted)
    except Exception as error:
        reason = str(error) if type(error) is ValueError else repr(error)
        raise ValueError(
            f"The shared memory named {name!r} is damaged: {reason}. Create the source again."
        ) from error
    if not trusted and kind == "mixed" and (arrays["tags"] == _PICKLE).any():
        raise ValueError(f"Cannot attach to the shared memory named {name!r}: {_PICKLED}.")
    return table, digest


def _read_arrays(memory: Any, start: int, entries: Any) -> Arrays:
    """Return the arrays that a header describes, all inside of the memory after `start`."""
    arrays: Arrays = {}
    for array, dtype_literal, shape, offset in entries:
        dtype = _dtype_from_literal(dtype_literal)
        if not isinstance(array, str) or array in arrays:
            raise ValueError(f"an array is named {array!r:.100}")
        if not isinstance(shape, tuple) or not all(map(_is_count, (*shape, offset))):
            raise ValueError(
                f"its array {array!r:.100} has shape {shape!r:.100} at {offset!r:.100}"
            )
        count = math.prod(shape)
        if start + offset + count * dtype.itemsize > len(memory):
            raise ValueError(f"its array {array!r:.100} of shape {shape!r:.100} is cut off")
        arrays[array] = np.frombuffer(memory, dtype, count, start + offset).reshape(shape)
    return arrays


def _is_count(value: Any) -> bool:
    return type(value) is int and value >= 0


def _check_arrays(kind: Any, arrays: Arrays, *, check_elements: bool) -> None:
    """Raise an error unless a table of this kind can be read from the arrays.

    Args:
        kind: The name of the table.
        arrays: Its arrays.
        check_elements: Whether to check where each element lies, which takes longer for more elements.
    """
    described = {name: (array.dtype.str, array.shape) for name, array in arrays.items()}
    match kind:
        case "scalars":
            fits = described.keys() == {"values"} and all(
                array.ndim == 1 and array.dtype in (np.int64, np.float64)
                for array in arrays.values()
            )
        case "rows":
            fits = described.keys() == {"values"} and arrays["values"].ndim > 0
        case "columns":
            fits = all(array.ndim > 0 for array in arrays.values())
            fits = fits and len({len(array) for array in arrays.values()}) == 1
        case "mixed":
            types = {name: array.dtype for name, array in arrays.items()}
            fits = types == {"tags": np.uint8, "ends": np.int64, "bytes": np.uint8}
            fits = fits and all(array.ndim == 1 for array in arrays.values())
            fits = fits and len(arrays["tags"]) == len(arrays["ends"])
        case _:
            raise ValueError(f"its kind is {kind!r:.100}")
    if not fits:
        raise ValueError(f"its arrays, {described!s:.500}, do not form a table of {kind}")
    if kind == "mixed" and check_elements:
        _check_elements(**arrays)


def _check_elements(tags: np.ndarray, ends: np.ndarray, bytes: np.ndarray) -> None:  # noqa: A002
    if not len(tags):
        return
    if tags.max() > _PICKLE:
        raise ValueError(f"element {int(tags.argmax())} has the unknown tag {tags.max()}")
    if ends[0] < 0 or (ends[1:] < ends[:-1]).any() or ends[-1] > len(bytes):
        raise ValueError("its elements lie outside of its bytes")


def _make_table(kind: str, arrays: Arrays, trusted: bool) -> Table:
    if kind == "mixed":
        return _Mixed(arrays, trusted)
    tables: dict[str, Callable[[Arrays], Table]] = {
        "scalars": _Scalars,
        "rows": _Rows,
        "columns": _Columns,
    }
    return tables[kind](arrays)


def _dtype_to_literal(dtype: np.dtype[Any]) -> Any:
    if dtype.kind == "V" and dtype.fields is None and dtype.type is not np.void:
        # An extension type such as bfloat16; numpy's own form would describe it as raw bytes.
        return {"extension": dtype.name}
    return npy_format.dtype_to_descr(dtype)


def _dtype_from_literal(literal: Any) -> np.dtype[Any]:
    if not isinstance(literal, dict):
        return npy_format.descr_to_dtype(literal)
    name = literal["extension"]
    if not isinstance(name, str):
        raise ValueError(f"an array has the type {name!r:.100}")
    try:
        return np.dtype(name)
    except TypeError:
        # Registers bfloat16 and its relatives with numpy.
        importlib.import_module("ml_dtypes")
        return np.dtype(name)


def _aligned(size: int) -> int:
    return -(-size // _ALIGNMENT) * _ALIGNMENT


def _bytes_of(array: np.ndarray) -> memoryview:
    return array.reshape(-1).view(np.uint8).data if array.size else memoryview(b"")
