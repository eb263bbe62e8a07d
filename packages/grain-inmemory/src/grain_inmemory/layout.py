"""How elements lie in a segment: a header that describes blocks, and the blocks.

A *table* is one of a few ways to lay elements out. Each knows how to turn elements into blocks
(arrays), and blocks back into elements.
"""

from __future__ import annotations

import hashlib
import pickle
import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

Blocks = dict[str, np.ndarray]

_MAGIC = b"GRAINMEM"
_HEADER = struct.Struct("<8sQ")  # magic, length of the description
_ALIGNMENT = 64


class Table(Protocol):
    """Elements laid out in blocks."""

    blocks: Blocks

    def __len__(self) -> int: ...

    def one(self, index: int) -> Any:
        """One element."""

    def many(self, indices: np.ndarray) -> list[Any]:
        """Many elements, in the order asked for."""
        ...

    def stacked(self, indices: np.ndarray) -> Any:
        """Many elements stacked into arrays, or None where that has no meaning."""


class _Scalars:
    """Only ints, or only floats, which come back as Python's own."""

    def __init__(self, blocks: Blocks) -> None:
        self.blocks = blocks
        self._values = blocks["values"]

    def __len__(self) -> int:
        return len(self._values)

    def one(self, index: int) -> Any:
        return self._values[index].item()

    def many(self, indices: np.ndarray) -> list[Any]:
        elements: list[Any] = self._values[indices].tolist()
        return elements

    def stacked(self, indices: np.ndarray) -> Any:
        return self._values[indices]


class _Rows:
    """The rows of one array."""

    def __init__(self, blocks: Blocks) -> None:
        self.blocks = blocks
        self._values = blocks["values"]

    def __len__(self) -> int:
        return len(self._values)

    # Elements are copies: they may be written to, and may outlive the mapping.
    def one(self, index: int) -> Any:
        row = self._values[index]
        return row.copy() if isinstance(row, np.ndarray) else row

    def many(self, indices: np.ndarray) -> list[Any]:
        return list(self._values[indices])

    def stacked(self, indices: np.ndarray) -> Any:
        return self._values[indices]


class _Columns:
    """The rows of several equally long arrays, as dicts."""

    def __init__(self, blocks: Blocks) -> None:
        self.blocks = blocks
        self._columns = {name: _Rows({"values": block}) for name, block in blocks.items()}

    def __len__(self) -> int:
        return len(next(iter(self._columns.values())))

    def one(self, index: int) -> dict[str, Any]:
        return {name: column.one(index) for name, column in self._columns.items()}

    def many(self, indices: np.ndarray) -> list[dict[str, Any]]:
        names = tuple(self._columns)
        columns = [column.many(indices) for column in self._columns.values()]
        return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]

    def stacked(self, indices: np.ndarray) -> dict[str, Any]:
        return {name: column.stacked(indices) for name, column in self._columns.items()}


class _Mixed:
    """Elements of any kind: a tag, and a stretch of bytes, for each."""

    def __init__(self, blocks: Blocks) -> None:
        self.blocks = blocks
        self._tags = blocks["tags"]
        self._ends = blocks["ends"]
        self._bytes = blocks["bytes"].data

    def __len__(self) -> int:
        return len(self._tags)

    def one(self, index: int) -> Any:
        begin = int(self._ends[index - 1]) if index else 0
        return _READ[self._tags[index]](self._bytes[begin : self._ends[index]])

    def many(self, indices: np.ndarray) -> list[Any]:
        begins = np.where(indices > 0, self._ends[indices - 1], 0).tolist()
        ends = self._ends[indices].tolist()
        read, data = _READ, self._bytes
        return [
            read[tag](data[begin:end])
            for tag, begin, end in zip(self._tags[indices].tolist(), begins, ends, strict=True)
        ]

    def stacked(self, indices: np.ndarray) -> None:
        return None


_NONE, _FALSE, _TRUE, _INT, _FLOAT, _STR, _BYTES, _PICKLE = range(8)
_READ: tuple[Callable[[memoryview], Any], ...] = (
    lambda data: None,
    lambda data: False,
    lambda data: True,
    lambda data: int.from_bytes(data, "little", signed=True),
    lambda data: struct.unpack("<d", data)[0],
    lambda data: str(data, "utf-8", "surrogatepass"),
    bytes,
    pickle.loads,
)


def _write(position: int, element: Any) -> tuple[int, bytes]:
    # Exact types only: a subclass, or numpy's own float64, must come back as what it was.
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
            f"Element {position}, a {kind.__name__}, cannot be kept in shared memory, since it "
            f"cannot be pickled: {error}"
        ) from error


_TABLES: dict[str, Callable[[Blocks], Table]] = {
    "scalars": _Scalars,
    "rows": _Rows,
    "columns": _Columns,
    "mixed": _Mixed,
}


def lay_out(elements: Iterable[Any]) -> tuple[str, Blocks]:
    """The table that suits the elements, by name, and its blocks."""
    if isinstance(elements, Mapping):
        return "columns", _columns(elements)
    if isinstance(elements, np.ndarray):
        return "rows", {"values": _plain("The array", elements)}
    if isinstance(elements, (str, bytes)) or not isinstance(elements, Iterable):
        raise TypeError(
            f"Elements must be a sequence, an array, or a dict of arrays, got {elements!r}."
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


def _mixed(elements: Sequence[Any]) -> Blocks:
    tags = np.empty(len(elements), np.uint8)
    ends = np.empty(len(elements), np.int64)
    data = bytearray()
    for position, element in enumerate(elements):
        tags[position], piece = _write(position, element)
        data += piece
        ends[position] = len(data)
    return {"tags": tags, "ends": ends, "bytes": np.frombuffer(data, np.uint8)}


def _columns(elements: Mapping[Any, Any]) -> Blocks:
    if not elements:
        raise ValueError("A dict of columns needs at least one column.")
    columns = {}
    for name, column in elements.items():
        if not isinstance(name, str):
            raise TypeError(f"The names of columns must be strings, got {name!r}.")
        try:
            array = np.asanyarray(column)
        except ValueError as error:
            raise ValueError(
                f"Column {name!r} does not make an array: {error} Give a list of dicts instead."
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
            f"{what} holds Python objects ({array.dtype}), which have no place in shared memory. "
            "Convert it to a type of fixed size, or give a list of elements instead."
        )
    if isinstance(array, np.ma.MaskedArray):
        raise TypeError(
            f"{what} is masked, and a mask has no place in shared memory. Fill it first, or give the"
            " mask as a column of its own."
        )
    return np.ascontiguousarray(array)


def describe(kind: str, blocks: Blocks) -> tuple[int, Callable[[memoryview], None]]:
    """How many bytes the blocks need with their header, and a function that writes both."""
    digest = hashlib.blake2b(kind.encode(), digest_size=10)
    for name, block in blocks.items():
        digest.update(repr((name, block.dtype.str, block.shape)).encode())
        digest.update(_bytes_of(block))
    places = []
    # Offsets count from the end of the header, which is as long as it turns out to be.
    size = 0
    for name, block in blocks.items():
        places.append((name, block.dtype, block.shape, size))
        size += _aligned(block.nbytes)
    description = pickle.dumps(
        {"kind": kind, "digest": digest.hexdigest(), "places": places}, protocol=5
    )
    start = _aligned(_HEADER.size + len(description))

    def fill(memory: memoryview) -> None:
        _HEADER.pack_into(memory, 0, _MAGIC, len(description))
        memory[_HEADER.size : _HEADER.size + len(description)] = description
        for (_, _, _, offset), block in zip(places, blocks.values(), strict=True):
            begin = start + offset
            memory[begin : begin + block.nbytes] = _bytes_of(block)

    return start + size, fill


def open_table(name: str, memory: Any) -> tuple[Table, str]:
    """The table in the memory of the segment called `name`, and the digest of its contents."""
    size = len(memory)
    magic, length = _HEADER.unpack_from(memory) if size >= _HEADER.size else (b"", 0)
    if magic != _MAGIC:
        raise ValueError(
            f"The shared memory named {name!r} was not made by this kind of source: check the name."
        )
    try:
        described = pickle.loads(memory[_HEADER.size : _HEADER.size + length])
        start = _aligned(_HEADER.size + length)
        blocks = {
            block: np.frombuffer(memory, dtype, int(np.prod(shape)), start + offset).reshape(shape)
            for block, dtype, shape, offset in described["places"]
        }
        return _TABLES[described["kind"]](blocks), described["digest"]
    except Exception as error:
        raise ValueError(
            f"The shared memory named {name!r} is damaged, or was made by another version: {error!r}."
            " Make the source anew."
        ) from error


def _aligned(size: int) -> int:
    return -(-size // _ALIGNMENT) * _ALIGNMENT


def _bytes_of(block: np.ndarray) -> memoryview:
    return block.reshape(-1).view(np.uint8).data if block.size else memoryview(b"")
