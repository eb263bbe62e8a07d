"""Batches straight from columns, for `batch` right after reading: no row is ever made."""

from __future__ import annotations

from typing import Any

import numpy as np

from grain import tree
from grain.dataset.base import ChunkIterator, DatasetIterator, IterDataset
from grain.dataset.batch import BatchIterDataset
from grain.dataset.chunk import END, Chunk
from grain_parquet.row_iterator import GroupColumn, RowIterator

Batch = dict[str, Any]
# Stretches of rows: the columns of a row group, and from where to where.
_Pieces = list[tuple[list[GroupColumn], int, int]]


class ColumnBatchIterDataset(BatchIterDataset[Batch]):
    """Batches of the rows of a Parquet file, with the elements and states of any other batching."""

    def __init__(self, parent: IterDataset[Any], batch_size: int, drop_remainder: bool) -> None:
        super().__init__(parent, batch_size, drop_remainder)

    def __iter__(self) -> DatasetIterator[Batch]:
        rows = self._parent.__iter__()
        if type(rows) is not RowIterator:
            rows.close()
            return super().__iter__()
        return _BatchIterator(rows, self, self._batch_size, self._drop_remainder)


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
                pieces, missing = self._next_pieces()
                if not pieces or (missing and self._drop_remainder):
                    break
                batches.append(_put_together(self._rows.names, pieces))
            except Exception as error:
                error.add_note(f"raised in {self._dataset}, over {self._rows}.")
                return self._fail_after(error, _run_of(batches, states))
            states.append(self._rows.get_state())
        return _run_of(batches, states)

    def _next_pieces(self) -> tuple[_Pieces, int]:
        """The rows of the next batch, and how many are missing at the end of the file."""
        pieces: _Pieces = []
        missing = self._batch_size
        while missing:
            columns, begin, end = self._rows.advance(missing)
            if not columns:
                break
            pieces.append((columns, begin, end))
            missing -= end - begin
        return pieces, missing

    def _live_state(self) -> Any:
        return self._rows.get_state()

    def _restore(self, state: Any) -> None:
        self._rows.set_state(state)

    def __str__(self) -> str:
        return str(self._dataset)


def _run_of(batches: list[Batch], states: list[Any]) -> Chunk:
    # A state is the position, a small dict; who asked for it may change what they got.
    return Chunk(batches, lambda place: dict(states[place])) if batches else END


def _put_together(names: list[str], pieces: _Pieces) -> Batch:
    # Sorted by name, as in every batch.
    order = sorted(range(len(names)), key=names.__getitem__)
    return {names[number]: _stack_column(names[number], number, pieces) for number in order}


def _stack_column(name: str, number: int, pieces: _Pieces) -> Any:
    arrays = [columns[number].numbers(begin, end) for columns, begin, end in pieces]
    numbers = [array for array in arrays if array is not None]
    if len(numbers) == len(pieces) and len({array.dtype for array in numbers}) == 1:
        return numbers[0].copy() if len(numbers) == 1 else np.concatenate(numbers)
    values: list[Any] = []
    for columns, begin, end in pieces:
        values += columns[number].values(begin, end)
    texts = all(columns[number].is_text for columns, _, _ in pieces)
    if texts and None not in values:
        return np.array(values)
    try:
        return tree.stack(values)
    except ValueError:
        # Once more with the name, so that the error tells which column it is.
        return tree.stack([{name: value} for value in values])[name]
