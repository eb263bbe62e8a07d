"""Batches built directly from columns, for `batch` right after reading: no rows are created."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from grain import tree
from grain.dataset.base import ChunkIterator, DatasetIterator, IterDataset
from grain.dataset.batch import BatchIterDataset
from grain.dataset.chunk import END, Chunk
from grain.dataset.node import ExecutionTrait
from grain_parquet.row_iterator import GroupColumn, RowIterator

Batch = dict[str, Any]
# Slices of row groups: the columns of a group, and the first and last row.
_Slices = list[tuple[list[GroupColumn], int, int]]


class ColumnBatchIterDataset(BatchIterDataset[Batch]):
    """Batches of the rows of a Parquet file, with the elements and states of `BatchIterDataset`."""

    def __init__(self, parent: IterDataset[Any], batch_size: int, drop_remainder: bool) -> None:
        super().__init__(parent, batch_size, drop_remainder)

    # Set again, since a class that writes `make_iterator` is otherwise taken for an ordered operation.
    execution_trait = ExecutionTrait.BATCHING

    def make_iterator(self, parents: Sequence[DatasetIterator[Any]]) -> DatasetIterator[Batch]:
        rows = parents[0]
        if type(rows) is not RowIterator:
            return super().make_iterator(parents)
        return _BatchIterator(rows, self, self.group_size, self.drop_remainder)


class _BatchIterator(ChunkIterator[Batch]):
    def __init__(
        self,
        rows: RowIterator,
        dataset: ColumnBatchIterDataset,
        batch_size: int,
        drop_remainder: bool,
    ) -> None:
        super().__init__(rows)
        self._rows = rows
        self._dataset = dataset
        self._batch_size = batch_size
        self._drop_remainder = drop_remainder

    def _pull(self, limit: int) -> Chunk:
        batches: list[Batch] = []
        states: list[Any] = []
        while len(batches) < limit:
            try:
                slices, missing = self._next_slices()
                if not slices or (missing and self._drop_remainder):
                    break
                batches.append(_stack(self._rows.names, slices))
            except Exception as error:
                error.add_note(f"raised in {self._dataset}, over {self._rows}.")
                return self._fail_after(error, _make_chunk(batches, states))
            states.append(self._rows.get_state())
        return _make_chunk(batches, states)

    def _next_slices(self) -> tuple[_Slices, int]:
        """Return the rows of the next batch, and how many are missing at the end of the file."""
        slices: _Slices = []
        missing = self._batch_size
        while missing:
            columns, begin, end = self._rows.advance(missing)
            if not columns:
                break
            slices.append((columns, begin, end))
            missing -= end - begin
        return slices, missing

    def _live_state(self) -> Any:
        return self._rows.get_state()

    def _restore(self, state: Any) -> None:
        self._rows.set_state(state)

    def __str__(self) -> str:
        return str(self._dataset)


def _make_chunk(batches: list[Batch], states: list[Any]) -> Chunk:
    # Copies, since the consumer may modify the state it received.
    return Chunk(batches, lambda offset: dict(states[offset])) if batches else END


def _stack(names: list[str], slices: _Slices) -> Batch:
    # Sorted by name, as in every batch.
    order = sorted(range(len(names)), key=names.__getitem__)
    return {names[number]: _stack_column(names[number], number, slices) for number in order}


def _stack_column(name: str, number: int, slices: _Slices) -> Any:
    arrays = [columns[number].numbers(begin, end) for columns, begin, end in slices]
    numbers = [array for array in arrays if array is not None]
    if len(numbers) == len(slices) and len({array.dtype for array in numbers}) == 1:
        return numbers[0].copy() if len(numbers) == 1 else np.concatenate(numbers)
    values: list[Any] = []
    for columns, begin, end in slices:
        values += columns[number].values(begin, end)
    texts = all(columns[number].is_text for columns, _, _ in slices)
    if texts and None not in values:
        return np.array(values)
    try:
        return tree.stack(values)
    except ValueError:
        # Stack again with the name, so that the error names the column.
        return tree.stack([{name: value} for value in values])[name]
