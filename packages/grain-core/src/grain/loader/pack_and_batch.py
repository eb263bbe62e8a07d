"""Packing and batching in one operation on records, for a `DataLoader`."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any, Generic, TypeVar

import numpy as np

from grain import tree
from grain.dataset.batch import checked_batch_size
from grain.dataset.packing.packed_row import Array, Layout, Row, as_sequence
from grain.options import checked_int
from grain.records import Record

T = TypeVar("T")


@dataclasses.dataclass
class PackAndBatchOperation(Generic[T]):
    """Operation that packs records into the rows of a batch, each into the first row where it fits.

    It yields records whose data are the packed batch, its segment ids and its positions, three trees
    like `length_struct`. A batch is complete when a record fits into none of its rows; it keeps the
    metadata of the last record in it.

    Attributes:
        length_struct: The length of each feature of a row, as a tree like the records' data.
        batch_size: The number of rows of a batch.
        max_sequences_per_bin: The maximum number of records in a row.
    """

    length_struct: Any
    batch_size: int
    max_sequences_per_bin: int | None = None
    _cur_batch: Any = None

    def __post_init__(self) -> None:
        checked_batch_size(self.batch_size)
        if self.max_sequences_per_bin is not None:
            checked_int("max_sequences_per_bin", self.max_sequences_per_bin, least=1)
        self._layout()

    def _layout(self) -> Layout:
        lengths = list(tree.leaves(self.length_struct))
        for length in lengths:
            checked_int("every length in length_struct", length, least=1)
        return Layout({str(number): length for number, length in enumerate(lengths)})

    def __call__(self, input_iterator: Iterator[Record[Any]]) -> Iterator[Record[Any]]:
        """Pack the records of an iterator."""
        layout = self._layout()
        batch: _Batch | None = None
        last: Record[Any] | None = None
        for record in input_iterator:
            values = self._values(record.data, layout)
            if batch is None:
                batch = _Batch(self, layout, values)
            if not batch.add(values):
                assert last is not None
                yield self._record(batch, last)
                batch = _Batch(self, layout, values)
                batch.add(values)
            last = record
        if batch is not None and last is not None:
            yield self._record(batch, last)

    def _values(self, data: Any, layout: Layout) -> list[Array]:
        if tree.map_leaves(_zero, data) != tree.map_leaves(_zero, self.length_struct):
            raise ValueError(
                "PackAndBatchOperation needs records with the structure of length_struct="
                f"{self.length_struct}, got {type(data).__name__} of "
                f"{len(list(tree.leaves(data)))} features."
            )
        values = [as_sequence(leaf, str(n)) for n, leaf in enumerate(tree.leaves(data))]
        if any(len(value) > room for value, room in zip(values, layout.lengths, strict=True)):
            raise ValueError(
                "Inputs to PackAndBatchOperation must be truncated to max length. Got features of "
                f"lengths {[len(value) for value in values]} for length_struct="
                f"{self.length_struct}. Cut them with a transformation before this operation."
            )
        return values

    def _record(self, batch: _Batch, last: Record[Any]) -> Record[Any]:
        data = tuple(_shaped(self.length_struct, columns) for columns in batch.columns())
        return Record(last.metadata.remove_record_key(), data)


class _Batch:
    """The rows of a batch while they are filled."""

    def __init__(self, operation: PackAndBatchOperation[Any], layout: Layout, values: list[Array]):
        self._layout = layout
        self._max = operation.max_sequences_per_bin
        self._fillers = layout.fillers(values)
        self._rows = [Row(layout) for _ in range(operation.batch_size)]
        self._used = [[0] * len(values) for _ in self._rows]

    def add(self, values: list[Array]) -> bool:
        """Pack a record; return False if it fits into no row."""
        lengths = list(map(len, values))
        for row, used in zip(self._rows, self._used, strict=True):
            ends = [start + length for start, length in zip(used, lengths, strict=True)]
            fits = all(end <= room for end, room in zip(ends, self._layout.lengths, strict=True))
            if fits and (self._max is None or row.count < self._max):
                row.add(used, self._layout.fitted(values, self._fillers))
                used[:] = ends
                return True
        return False

    def columns(self) -> tuple[list[Array], list[Array], list[Array]]:
        """Return the values, segment ids and positions of each feature."""
        values, ids, positions = [], [], []
        marks = [row.marks(self._layout) for row in self._rows]
        for feature, filler in enumerate(self._fillers):
            values.append(np.stack([row.cells(feature, filler) for row in self._rows]))
            # Without meta features, all features are marked.
            marked = [found for of_row in marks if (found := of_row[feature]) is not None]
            ids.append(np.stack([mark[0] for mark in marked]))
            positions.append(np.stack([mark[1] for mark in marked]))
        return values, ids, positions


def _shaped(struct: Any, columns: list[Array]) -> Any:
    """Return columns as a tree of the structure of `struct`."""
    left = iter(columns)
    return tree.map_leaves(lambda _: next(left), struct)


def _zero(leaf: Any) -> int:
    del leaf
    return 0
