"""Batches of one size, made of batches of other sizes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np

from grain import tree
from grain._exceptions import add_note
from grain.dataset.batch import checked_batch_size
from grain.dataset.chunk import END, Chunk
from grain.dataset.element_spec import ShapeDtypeStruct, get_element_spec
from grain.dataset.iter_dataset import IterDataset
from grain.dataset.iterator import ChunkIterator, DatasetIterator, count_field, state_field
from grain.dataset.parent_cursor import ParentCursor
from grain.dataset.validation import checked_iter_parent

T = TypeVar("T")

# Rows of one of the parent's batches: its leaves, and which rows.
_Rows = tuple[list[Any], int, int]


class RebatchIterDataset(IterDataset[T]):
    """Batches split and joined so that each has `batch_size` rows.

    >>> import grain
    >>> batches = grain.MapDataset.range(10).batch(5).to_iter_dataset()
    >>> list(RebatchIterDataset(batches, batch_size=4))
    [array([0, 1, 2, 3]), array([4, 5, 6, 7]), array([8, 9])]
    """

    fingerprint_name = "rebatch"

    def __init__(self, parent: IterDataset[T], batch_size: int, drop_remainder: bool = False):
        super().__init__(checked_iter_parent(type(self).__name__, parent))
        self._batch_size = checked_batch_size(batch_size)
        self._drop_remainder = drop_remainder

    def make_iterator(self, parents: Sequence[DatasetIterator[Any]]) -> DatasetIterator[T]:
        return RebatchDatasetIterator(parents[0], self, self._batch_size, self._drop_remainder)

    def __str__(self) -> str:
        return (
            f"RebatchIterDataset(batch_size={self._batch_size}, "
            f"drop_remainder={self._drop_remainder})"
        )

    def fingerprint_arguments(self) -> dict[str, Any]:
        return {"batch_size": self._batch_size, "drop_remainder": self._drop_remainder}

    def infer_element_spec(self) -> Any:
        # As in the reference also where the last batch may be short.
        return tree.map_leaves(
            lambda leaf: ShapeDtypeStruct((self._batch_size, *leaf.shape[1:]), leaf.dtype),
            get_element_spec(self._parent),
        )


class RebatchDatasetIterator(ChunkIterator[T]):
    """An iterator that collects rows of its parent's batches.

    The state is the parent's before the batch that is being split, and the number of its rows that
    were returned.
    """

    def __init__(
        self,
        parent: DatasetIterator[Any],
        dataset: RebatchIterDataset[T],
        batch_size: int,
        drop_remainder: bool,
    ):
        super().__init__(parent)
        self._dataset = dataset
        self._batch_size = batch_size
        self._drop_remainder = drop_remainder
        self._cursor = ParentCursor(parent)
        self._begin(0)

    def __str__(self) -> str:
        return f"RebatchDatasetIterator(batch_size={self._batch_size})"

    def _begin(self, taken: int) -> None:
        self._cursor.reset()
        # The state after the batch that was returned last.
        self._last: tuple[Callable[[], Any], int] = (self._cursor.end(), taken)
        self._skip = taken
        self._pending: list[_Rows] = []
        self._rows_pending = 0
        # The batch that was taken last, for the structure of batches, and its number of rows.
        self._element: Any = None
        self._parent_rows = self._batch_size

    def _pull(self, limit: int) -> Chunk:
        dataset = self._dataset
        batches: list[Any] = []
        states: list[tuple[Callable[[], Any], int]] = []
        while len(batches) < max(1, limit):
            # As many of the parent's batches as the missing rows need, if all are as long as the last one.
            rows = (limit - len(batches)) * self._batch_size - self._rows_pending
            try:
                elements = self._cursor.pull(max(1, -(-rows // max(1, self._parent_rows))))
            except Exception as error:
                return self._fail_after(error, self._chunk_of(batches, states))
            if not elements:
                end = self._cursor.end()
                self._last = (end, self._last[1])
                if self._rows_pending and not self._drop_remainder:
                    taken = self._pending[-1][2]
                    batches.append(self._join())
                    states.append((end, taken))
                self._pending, self._rows_pending = [], 0
                break
            for offset, element in enumerate(elements):
                try:
                    self._add(offset, element, batches, states)
                except Exception as error:
                    # The batch that failed is lost; rows of the ones before it stay.
                    self._cursor.keep(offset + 1)
                    add_note(error, f"raised in {dataset}, over {dataset.describe_sources()}.")
                    return self._fail_after(error, self._chunk_of(batches, states))
        return self._chunk_of(batches, states)

    def _chunk_of(self, batches: list[Any], states: list[tuple[Callable[[], Any], int]]) -> Chunk:
        if not batches:
            return END
        self._last = states[-1]
        return Chunk(batches, lambda offset: _state(*states[offset]))

    def _add(
        self,
        offset: int,
        element: Any,
        batches: list[Any],
        states: list[tuple[Callable[[], Any], int]],
    ) -> None:
        """Add the rows of a batch of the parent, and finish as many batches as they fill."""
        skip, self._skip = self._skip, 0
        leaves = [element] if type(element) is np.ndarray else list(tree.leaves(element))
        rows = self._parent_rows = _row_count(leaves)
        if self._pending:
            _check_fit(self._element, element, self._pending[-1][0], leaves)
        self._element = element
        size = self._batch_size
        begin = min(skip, rows)
        before: Callable[[], Any] | None = None
        while begin < rows:
            end = min(rows, begin + size - self._rows_pending)
            self._pending.append((leaves, begin, end))
            self._rows_pending += end - begin
            begin = end
            if self._rows_pending == size:
                before = before or self._cursor.before(offset)
                batches.append(self._join())
                states.append((before, end))

    def _join(self) -> Any:
        """Return the pending rows as one batch."""
        pending, self._pending, self._rows_pending = self._pending, [], 0
        element = self._element
        if type(element) is np.ndarray:
            if len(pending) == 1:
                [([leaf], begin, end)] = pending
                return leaf[begin:end]
            return np.concatenate([leaf[begin:end] for [leaf], begin, end in pending])
        columns = [
            [leaves[number][begin:end] for leaves, begin, end in pending]
            for number in range(len(pending[0][0]))
        ]
        joined = iter(
            [column[0] if len(column) == 1 else np.concatenate(column) for column in columns]
        )
        return tree.map_leaves(lambda _: next(joined), element)

    def _live_state(self) -> Any:
        return _state(*self._last)

    def _restore(self, state: Any) -> None:
        taken = count_field(state, "batch_idx", self)
        self._parent.restore_as_parent(state_field(state, "parent", self))
        self._begin(taken)


def _row_count(leaves: list[Any]) -> int:
    if len(leaves) == 1 and type(leaves[0]) is np.ndarray and leaves[0].ndim:
        return len(leaves[0])
    if not leaves:
        raise TypeError(
            "RebatchIterDataset needs batches, whose arrays have a first dimension; got one without arrays, "
            "such as None."
        )
    sizes = set()
    for leaf in leaves:
        if not getattr(leaf, "shape", ()):
            raise TypeError(
                "RebatchIterDataset needs batches, whose arrays have a first dimension; got "
                f"{type(leaf).__name__}."
            )
        sizes.add(len(leaf))
    if len(sizes) > 1:
        raise ValueError(
            f"RebatchIterDataset needs batches whose arrays have equally many rows; got "
            f"{sorted(sizes)}."
        )
    return sizes.pop()


def _any(leaf: Any) -> str:
    del leaf
    return "*"


def _check_fit(first: Any, second: Any, old: list[Any], new: list[Any]) -> None:
    """Raise an error if rows of two batches cannot be joined."""
    are_arrays = type(first) is np.ndarray and type(second) is np.ndarray
    if not are_arrays and tree.map_leaves(_any, first) != tree.map_leaves(_any, second):
        raise ValueError(
            "RebatchIterDataset cannot join batches of different structure: "
            f"{tree.map_leaves(_any, first)} and {tree.map_leaves(_any, second)}."
        )
    for one, other in zip(old, new, strict=True):
        if one.shape[1:] != other.shape[1:]:
            raise ValueError(
                "RebatchIterDataset cannot join arrays of the shapes "
                f"{one.shape} and {other.shape}: all dimensions but the first must agree."
            )


def _state(before: Callable[[], Any], taken: int) -> dict[str, Any]:
    return {"parent": before(), "batch_idx": taken}
