"""Batches: consecutive elements stacked along a new first dimension."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np

from grain import tree
from grain._exceptions import (
    add_note,
    as_failure,
    mark_unfinished_batch,
    note_element,
    transform_name,
)
from grain._user_code import calls_user_code
from grain.dataset.chunk import END, Chunk, PartialRead, chunk_of
from grain.dataset.element_spec import ShapeDtypeStruct, get_element_spec
from grain.dataset.growing_stack import GrowingStack, portion_size
from grain.dataset.iter_dataset import IterDataset
from grain.dataset.iterator import ChunkIterator, DatasetIterator, Transformed
from grain.dataset.map_dataset import IndexedMapDataset, MapDataset, read_each
from grain.dataset.node import ExecutionTrait, computed
from grain.dataset.parent_cursor import constant
from grain.dataset.stages import StageIterDataset
from grain.index.permutation import IndexArray
from grain.index.slicing import reaches_far
from grain.memory.allocation import MIN_ALIGNED_BYTES, allocate
from grain.options import checked_int

T = TypeVar("T")

BatchFn = Callable[[Sequence[Any]], Any]


def checked_batch_size(batch_size: Any) -> int:
    """Return a batch size as an int, or raise an error that shows it."""
    size = checked_int("batch_size", batch_size, least=-(2**63))
    if size <= 0:
        # Message kept from google/grain 0.2.18
        raise ValueError(f"batch_size must be positive. Got {size}.")
    return size


def batch_and_pad(values: Sequence[Any], *, batch_size: int, pad_value: Any = 0) -> Any:
    """Stack elements and pad the batch to `batch_size` with `pad_value`; for use as `batch_fn`.

    >>> batch_and_pad([1, 2], batch_size=4, pad_value=-1)
    array([ 1,  2, -1, -1])
    """
    size = checked_batch_size(batch_size)
    if not values:
        raise ValueError("Cannot batch and pad an empty sequence of elements.")
    if len(values) > size:
        raise ValueError(f"Cannot pad {len(values)} elements to a batch of {size}.")
    missing = size - len(values)
    stacked = tree.stack(list(values))
    if not missing:
        return stacked

    def pad(array: Any) -> Any:
        filler = np.full((missing, *array.shape[1:]), pad_value, dtype=array.dtype)
        return np.concatenate([array, filler])

    return tree.map_leaves(pad, stacked)


class BatchMapDataset(IndexedMapDataset[T]):
    """Batches that never span two epochs; the last one of an epoch may be short."""

    fingerprint_name = "batch"

    def __init__(
        self,
        parent: MapDataset[Any],
        batch_size: int,
        drop_remainder: bool = False,
        batch_fn: BatchFn | None = None,
    ):
        super().__init__(parent)
        self._batch_size = checked_batch_size(batch_size)
        if parent.is_surely_sparse:
            name = _discarding_name(parent)
            # Message kept from google/grain 0.2.18
            raise ValueError(
                f"`MapDataset.batch` can not follow `{name}` because `{name.rpartition('.')[2]}` can "
                "discard elements. Convert `MapDataset` to `IterDataset` with `to_iter_dataset()` "
                "before calling `batch`."
            )
        self._drop_remainder = drop_remainder
        self._batch_fn = checked_batch_fn(batch_fn)
        self._columns_first = batch_fn is None and parent.is_columnar
        # Elements to read at a time, 0 for all of them; None until the first one shows its size.
        self._portion: int | None = None
        if batch_fn is not None or parent.is_read_together:
            self._portion = 0
        self._parent_length = len(parent)
        whole, rest = divmod(self._parent_length, self._batch_size)
        self._length = whole + (1 if rest and not drop_remainder else 0)

    def __len__(self) -> int:
        return self._length

    def __str__(self) -> str:
        return (
            f"BatchMapDataset(batch_size={self._batch_size}, drop_remainder={self._drop_remainder})"
        )

    def origins(self, index: int) -> Sequence[tuple[MapDataset[Any], int]]:
        _, start, size = self._span(index)
        return [(self._parent, number) for number in range(start, start + size)]

    def _span(self, index: int) -> tuple[int, int, int]:
        """Return the epoch of a batch, where it starts in the parent, and how long it is."""
        epoch, within = divmod(index, self._length)
        begin = within * self._batch_size
        size = min(self._batch_size, self._parent_length - begin)
        return epoch, epoch * self._parent_length + begin, size

    def read_one(self, index: int) -> Any:
        epoch, start, size = self._span(index)
        if max(epoch + 1, -epoch) * self._parent_length > 2**63:
            elements = read_each(self._parent, range(start, start + size))
            batches = self._stacked(elements, [size], [index])
        else:
            offsets = np.arange(start, start + size, dtype=np.int64)
            batches = self._batches(offsets, [size], [index])
        if isinstance(batches, PartialRead):
            raise batches.error
        return batches[0]

    def read_many(self, indices: IndexArray) -> list[Any]:
        if not indices.size:
            return []
        if reaches_far(indices, self._length, self._parent_length):
            return read_each(self, indices.tolist())
        starts, sizes = self._spans(indices)
        return self._batches(_expand(starts, sizes), sizes, indices.tolist())

    def _batches(self, offsets: IndexArray, sizes: list[int], indices: Sequence[int]) -> list[Any]:
        """Return the batches at `indices`, which have these sizes, and elements at these `offsets`."""
        if self._columns_first:
            columns = self._parent.read_columns(offsets)
            if columns is not None:
                return _cut(columns, sizes)
        known: list[Any] = []
        if self._portion is None:
            known = self._parent.read_many(offsets[:1])
            if isinstance(known, PartialRead):
                return self._stacked(known, sizes, indices)
            self._portion = portion_size(known[0], sizes[0])
        if self._portion:
            return self._assembled(known, offsets, sizes, indices)
        elements = self._parent.read_many(offsets[len(known) :])
        if known:
            elements[:0] = known
        return self._stacked(elements, sizes, indices)

    @calls_user_code
    def _assembled(
        self, known: list[Any], offsets: IndexArray, sizes: list[int], indices: Sequence[int]
    ) -> list[Any]:
        """Return the batches at `indices`, whose large elements are read in portions.

        Args:
            known: The first elements, which were read already.
            offsets: The indices of all elements.
            sizes: The sizes of the batches.
            indices: The indices of the batches.
        """
        batches: list[Any] = []
        begin, portion = 0, self._portion or 1
        for size, index in zip(sizes, indices, strict=True):
            stack = GrowingStack(size)
            stack.add(known)
            end = begin + size
            begin += len(known)
            known = []
            while begin < end:
                elements = self._parent.read_many(offsets[begin : min(begin + portion, end)])
                if isinstance(elements, PartialRead):
                    return PartialRead(batches, elements.error)
                stack.add(elements)
                begin += len(elements)
                del elements
            try:
                batches.append(stack.finish())
            except Exception as raised:
                error = as_failure(raised)
                note_element(error, self, index, self.describe_sources())
                return PartialRead(batches, error)
        return batches

    @calls_user_code
    def _stacked(self, elements: list[Any], sizes: list[int], indices: Sequence[int]) -> list[Any]:
        """Return the batches at `indices`, which have these elements and sizes."""
        batches: list[Any] = []
        begin = 0
        make = self._batch_fn or tree.stack
        for size in sizes:
            if begin + size > len(elements):
                break
            try:
                batches.append(make(elements[begin : begin + size]))
            except Exception as raised:
                error = as_failure(raised)
                note_element(error, self, indices[len(batches)], self.describe_sources())
                return PartialRead(batches, error)
            begin += size
        if isinstance(elements, PartialRead):
            return PartialRead(batches, elements.error)
        return batches

    def _spans(self, indices: IndexArray) -> tuple[IndexArray, list[int]]:
        """Return where each batch starts in the parent, and how long it is."""
        epochs = indices // self._length
        # A batch size beyond 64 bits is no larger than the parent.
        size = min(self._batch_size, self._parent_length)
        starts = (indices - epochs * self._length) * size
        sizes = np.minimum(size, self._parent_length - starts)
        return starts + epochs * self._parent_length, sizes.tolist()

    @computed
    def is_sparse(self) -> bool:
        return False

    @computed
    def is_dense(self) -> bool:
        return self._batch_fn is None

    def fingerprint_arguments(self) -> dict[str, Any]:
        return {
            "batch_size": self._batch_size,
            "drop_remainder": self._drop_remainder,
            "batch_fn": self._batch_fn,
        }

    def infer_element_spec(self) -> Any:
        return _batch_spec(
            get_element_spec(self._parent), self._batch_size, self._drop_remainder, self._batch_fn
        )


def _discarding_name(dataset: Any) -> str:
    """Return the name of the operation that discards elements, for messages."""
    above = next((parent for parent in dataset.parents if parent.is_surely_sparse), None)
    if above is not None:
        return _discarding_name(above)
    return "MapDataset.filter" if dataset.fingerprint_name == "filter" else type(dataset).__name__


def checked_batch_fn(batch_fn: Any) -> BatchFn | None:
    """Return `batch_fn`, or raise an error that shows the value that is no function."""
    if batch_fn is not None and not callable(batch_fn):
        raise TypeError(
            f"batch_fn must be a function of a list of elements, got {batch_fn!r} of type "
            f"{type(batch_fn).__name__}."
        )
    return batch_fn  # type: ignore[no-any-return]


def _batch_spec(
    element: Any, batch_size: int, drop_remainder: bool, batch_fn: BatchFn | None
) -> Any:
    if batch_fn is None:
        size = batch_size if drop_remainder else None
        return tree.map_leaves(
            lambda leaf: ShapeDtypeStruct((size, *leaf.shape), leaf.dtype), element
        )
    output_spec = getattr(batch_fn, "output_spec", None)
    if output_spec is None:
        # Message kept from google/grain 0.2.18
        raise NotImplementedError(
            "Element spec inference is not supported with custom batching functions; give "
            f"{transform_name(batch_fn)} a method `output_spec`."
        )
    try:
        inspect.signature(output_spec).bind(element, batch_size, drop_remainder)
    except (TypeError, ValueError):
        return output_spec(element)
    return output_spec(element, batch_size, drop_remainder)


def _expand(starts: IndexArray, sizes: list[int]) -> IndexArray:
    """Return all indices of spans, span by span."""
    size = sizes[0]
    if len(sizes) == 1:
        return np.arange(starts[0], starts[0] + size, dtype=np.int64)
    if sizes.count(size) == len(sizes):
        return (starts[:, None] + np.arange(size)).reshape(-1)
    spans = zip(starts.tolist(), sizes, strict=True)
    return np.concatenate([np.arange(s, s + n, dtype=np.int64) for s, n in spans])


def _cut(columns: Any, sizes: list[int]) -> list[Any]:
    """Split stacked columns into batches, each with its own memory."""
    if len(sizes) == 1:
        # A source may return its columns in any order; a batch has them sorted.
        return [columns if type(columns) is np.ndarray else tree.map_leaves(_same, columns)]
    if type(columns) is np.ndarray:
        return _copies(columns, sizes)
    copies = [_copies(column, sizes) for column in tree.leaves(columns)]
    return [
        _with_leaves(columns, [rows[number] for rows in copies]) for number in range(len(sizes))
    ]


def _same(column: Any) -> Any:
    return column


def _with_leaves(structure: Any, leaves: list[Any]) -> Any:
    """Return a tree of this structure with other leaves, in the order of `tree.leaves`."""
    remaining = iter(leaves)
    return tree.map_leaves(lambda _: next(remaining), structure)


def _copies(column: Any, sizes: list[int]) -> list[Any]:
    """Return copies of consecutive rows of a column, as many for each batch as its size."""
    size = sizes[0]
    batches: Any
    if sizes.count(size) == len(sizes) and type(column) is np.ndarray and column.flags.c_contiguous:
        batches = column.reshape(len(sizes), size, *column.shape[1:])
    else:
        stops = itertools.accumulate(sizes)
        batches = [column[stop - size : stop] for size, stop in zip(sizes, stops, strict=True)]
    if max(sizes) * column[:1].nbytes < MIN_ALIGNED_BYTES or column.dtype.hasobject:
        return [rows.copy() for rows in batches]
    return list(map(_aligned_copy, batches))


def _aligned_copy(rows: Any) -> Any:
    copied = allocate(rows.shape, rows.dtype)
    copied[...] = rows
    return copied


class BatchIterDataset(StageIterDataset[T]):
    """Batches of consecutive elements; the last one may be short."""

    fingerprint_name = "batch"

    counts_elements = True
    execution_trait = ExecutionTrait.BATCHING

    def __init__(
        self,
        parent: IterDataset[Any],
        batch_size: int,
        drop_remainder: bool = False,
        batch_fn: BatchFn | None = None,
    ):
        super().__init__(parent)
        self._batch_size = checked_batch_size(batch_size)
        self.drop_remainder = drop_remainder
        self._batch_fn = checked_batch_fn(batch_fn)

    def make_iterator(self, parents: Sequence[DatasetIterator[Any]]) -> DatasetIterator[T]:
        return BatchDatasetIterator(parents[0], self)

    def accepts_state(self, state: Any) -> bool:
        accepted: bool = self._parent.accepts_state(state)
        return accepted

    @property
    def group_size(self) -> int:  # type: ignore[override]
        return self._batch_size

    def apply_chunk(self, elements: list[Any], first: int) -> Transformed:
        """Return batches that start at the first element; the caller decides on a last short one."""
        del first
        size = self._batch_size
        batches: list[Any] = []
        ends: list[int] = []
        for begin in range(0, len(elements), size):
            chunk = elements[begin : begin + size]
            error = self.make_batch(chunk, batches)
            if error is not None:
                return Transformed(batches, ends, begin + len(chunk) - 1, error)
            ends.append(begin + len(chunk) - 1)
        return Transformed(batches, ends, len(elements), None)

    @calls_user_code
    def make_batch(self, elements: list[Any], batches: list[Any]) -> Exception | None:
        """Append the batch of some elements to `batches`; return the error that stopped it, if any."""
        try:
            batches.append((self._batch_fn or tree.stack)(elements))
        except Exception as raised:
            error = as_failure(raised)
            add_note(error, f"raised in {self}, over {self.describe_sources()}.")
            return error
        return None

    def __str__(self) -> str:
        return (
            f"BatchIterDataset(batch_size={self._batch_size}, drop_remainder={self.drop_remainder})"
        )

    def known_length(self) -> int | None:
        length = self._parent.known_length()
        if length is None:
            return None
        whole, rest = divmod(length, self._batch_size)
        return int(whole + (1 if rest and not self.drop_remainder else 0))

    def fingerprint_arguments(self) -> dict[str, Any]:
        return {
            "batch_size": self._batch_size,
            "drop_remainder": self.drop_remainder,
            "batch_fn": self._batch_fn,
        }

    def infer_element_spec(self) -> Any:
        return _batch_spec(
            get_element_spec(self._parent), self._batch_size, self.drop_remainder, self._batch_fn
        )


class BatchDatasetIterator(ChunkIterator[T]):
    """An iterator that batches chunks of its parent; it holds no element between two batches."""

    def __init__(self, parent: DatasetIterator[Any], dataset: BatchIterDataset[T]):
        super().__init__(parent)
        self._dataset = dataset
        self._held = END  # The rest of the parent's last chunk.
        self._failed: Any = None

    def __str__(self) -> str:
        dataset = self._dataset
        return (
            f"BatchDatasetIterator(batch_size={dataset.group_size}, "
            f"drop_remainder={dataset.drop_remainder})"
        )

    def _pull(self, limit: int) -> Chunk:
        self._failed = None
        size = self._dataset.group_size
        batches: list[Any] = []
        states: list[Callable[[], Any]] = []
        pending: list[Any] = []
        while True:
            chunk, self._held = self._held, END
            if not chunk.elements:
                # At least a batch: otherwise smaller and smaller chunks would be requested of a filter.
                wanted = max(size, (limit - len(batches)) * size - len(pending))
                try:
                    chunk = self._parent.next_chunk(wanted)
                except Exception as failure:
                    # The elements of an incomplete batch are dropped with the one that failed.
                    mark_unfinished_batch(failure)
                    return self._fail_after(failure, chunk_of(batches, states))
            if not chunk.elements:
                if pending and not self._dataset.drop_remainder:
                    error = self._dataset.make_batch(pending, batches)
                    if error is not None:
                        return self._fail_after(error, chunk_of(batches, states))
                    # Captured now: a repeat sets the parent back before the state is requested.
                    states.append(constant(self._parent.get_state()))
                return chunk_of(batches, states)
            begin, elements = 0, chunk.elements
            while (end := begin + size - len(pending)) <= len(elements):
                error = self._dataset.make_batch(pending + elements[begin:end], batches)
                begin, pending = end, []
                if error is not None:
                    self._held = chunk.rest(end)
                    self._failed = chunk.snapshot(end - 1)
                    return self._fail_after(error, chunk_of(batches, states, chunk.live))
                states.append(chunk.snapshot(end - 1))
            if batches and (chunk.live or len(batches) >= limit):
                self._held = _prepend(pending, chunk.rest(begin))
                return chunk_of(batches, states, chunk.live)
            pending += elements[begin:]

    def index_from_state(self, state: Any) -> int:
        return -(-self._parent.index_from_state(state) // self._dataset.group_size)

    def state_from_index(self, index: int) -> Any:
        return self._parent.state_from_index(self._dataset.first_input(index))

    def _live_state(self) -> Any:
        return self._failed() if self._failed is not None else self._parent.get_state()

    def _restore(self, state: Any) -> None:
        self._held, self._failed = END, None
        self._parent.restore_as_parent(state)


def _prepend(pending: list[Any], chunk: Chunk) -> Chunk:
    """Return a chunk with elements of earlier chunks first; no batch ends with one of those."""
    if not pending:
        return chunk
    count, state_after = len(pending), chunk.state_after
    return Chunk(pending + chunk.elements, lambda offset: state_after(offset - count), chunk.live)
