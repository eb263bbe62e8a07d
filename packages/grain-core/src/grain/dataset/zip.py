"""Zipped datasets: element i is the tuple of their elements i."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, TypeVar

import numpy as np

from grain.dataset.chunk import END, Chunk, PartialRead
from grain.dataset.combined import CombinedReader, SeparateReader, combine
from grain.dataset.element_spec import get_element_spec
from grain.dataset.iter_dataset import IterDataset
from grain.dataset.iterator import (
    ChunkIterator,
    DatasetIterator,
    captured_state,
    copied_state,
    state_field,
)
from grain.dataset.map_dataset import IndexedMapDataset, MapDataset
from grain.dataset.node import computed, computed_once
from grain.dataset.parent_cursor import constant
from grain.index.permutation import IndexArray

T = TypeVar("T")

# So many parents of one kind are read together, for so few elements that a call per parent costs more.
_MANY_PARENTS, _FEW_ELEMENTS = 16, 32


def _checked_parents(parents: Any, kinds: tuple[type, ...], owner: str) -> list[Any]:
    if isinstance(parents, Iterator):
        parents = list(parents)
    if isinstance(parents, (MapDataset, IterDataset)) or not isinstance(parents, Sequence):
        raise TypeError(
            f"{owner} needs a sequence of datasets, got {type(parents).__name__}; write [ds, ds2]."
        )
    if not parents:
        # Message kept from google/grain 0.2.18
        raise ValueError("At least one parent must be provided.")
    for number, parent in enumerate(parents):
        if not isinstance(parent, kinds):
            raise TypeError(
                f"{owner} needs datasets of type {' or '.join(kind.__name__ for kind in kinds)}, "
                f"but item {number} is of type {type(parent).__name__}."
            )
    return list(parents)


class ZipMapDataset(IndexedMapDataset[tuple[Any, ...]]):
    """Tuples of the elements that datasets of one length have at the same index.

    >>> import grain
    >>> list(ZipMapDataset([grain.MapDataset.range(2), grain.MapDataset.source(["a", "b"])]))
    [(0, 'a'), (1, 'b')]
    """

    fingerprint_name = "zip"
    may_end_early = True

    def written_call(self) -> str:
        return "ZipMapDataset()"

    def __init__(self, parents: Sequence[MapDataset[Any]]):
        parents = _checked_parents(parents, (MapDataset,), "ZipMapDataset")
        super().__init__(parents)
        lengths = [len(parent) for parent in parents]
        if len(set(lengths)) > 1:
            # Message kept from google/grain 0.2.18
            raise ValueError(f"All parents must have the same length. Got lengths {lengths}.")
        self._length = lengths[0]

    def __len__(self) -> int:
        return self._length

    def __str__(self) -> str:
        return f"ZipMapDataset[{len(self._parents)} parents]"

    def origins(self, index: int) -> Sequence[tuple[MapDataset[Any], int]]:
        return [(parent, index) for parent in self._parents]

    @computed_once
    def _reader(self) -> CombinedReader | None:
        """Return the reader of parents of one kind, if there are many."""
        if len(self._parents) < _MANY_PARENTS:
            return None
        reader = combine(self._parents)
        return None if isinstance(reader, SeparateReader) else reader

    def __getstate__(self) -> dict[str, Any]:
        state = dict(self.__dict__)
        state.pop("_reader", None)
        return state

    def read_one(self, index: int) -> tuple[Any, ...]:
        return tuple([parent.read_one(index) for parent in self._parents])

    def read_many(self, indices: IndexArray) -> list[Any]:
        if not indices.size:
            return []
        if indices.size < _FEW_ELEMENTS and self._reader is not None:
            return self._read_together(self._reader, indices)
        columns = []
        end, failure = indices.size, None
        for parent in self._parents:
            # Elements after the first failure of another parent are not needed.
            elements = parent.read_many(indices[:end])
            if isinstance(elements, PartialRead):
                end, failure = len(elements), elements.error
            columns.append(elements)
        tuples = list(zip(*columns, strict=False))
        return tuples if failure is None else PartialRead(tuples, failure)

    def _read_together(self, reader: CombinedReader, indices: IndexArray) -> list[Any]:
        count = len(self._parents)
        chosen = np.tile(np.arange(count), indices.size)
        elements = reader.read_many(chosen, np.repeat(indices, count))
        # Of an element that is not whole, nothing is left.
        tuples = list(zip(*[iter(elements)] * count, strict=False))
        return PartialRead(tuples, elements.error) if isinstance(elements, PartialRead) else tuples

    def read_columns(self, indices: IndexArray) -> Any:
        if not self.is_columnar:
            return None
        stacked = []
        for parent in self._parents:
            columns = parent.read_columns(indices)
            if columns is None:
                return None
            stacked.append(columns)
        return tuple(stacked)

    @computed_once
    def is_columnar(self) -> bool:
        return all(parent.is_columnar and parent.is_dense for parent in self._parents)

    @computed
    def is_dense(self) -> bool:
        # An element may be a tuple of Nones; it is never None itself.
        return True

    def infer_element_spec(self) -> Any:
        return tuple(get_element_spec(parent) for parent in self._parents)


class ZipIterDataset(IterDataset[tuple[Any, ...]]):
    """Tuples of the elements of several datasets.

    Args:
        parents: The datasets.
        strict: Whether it is an error when one of them ends before the others. Otherwise the shortest
            one ends the stream.
    """

    fingerprint_name = "zip"
    may_end_early = True

    def written_call(self) -> str:
        return f"ZipIterDataset({'' if self._strict else 'strict=False'})"

    def __init__(self, parents: Sequence[IterDataset[Any]], *, strict: bool = True):
        # Map datasets are accepted: they can be iterated as well.
        parents = _checked_parents(parents, (IterDataset, MapDataset), "ZipIterDataset")
        super().__init__(parents)
        self._strict = strict

    def make_iterator(
        self, parents: Sequence[DatasetIterator[Any]]
    ) -> DatasetIterator[tuple[Any, ...]]:
        return ZipDatasetIterator(parents, self._strict)

    def __str__(self) -> str:
        return f"ZipIterDataset[{len(self._parents)} parents](strict={self._strict})"

    def known_length(self) -> int | None:
        lengths = [
            len(parent) if isinstance(parent, MapDataset) else parent.known_length()
            for parent in self._parents
        ]
        if any(length is None for length in lengths):
            return None
        return min(lengths)

    def fingerprint_arguments(self) -> dict[str, Any]:
        return {"strict": self._strict}

    def infer_element_spec(self) -> Any:
        return tuple(get_element_spec(parent) for parent in self._parents)


class ZipDatasetIterator(ChunkIterator[tuple[Any, ...]]):
    """An iterator that takes one element of each parent for each tuple."""

    def __init__(self, parents: Sequence[DatasetIterator[Any]], strict: bool):
        super().__init__(parents)
        self._strict = strict
        self._begin()

    def __str__(self) -> str:
        return f"ZipDatasetIterator([{len(self._parents)} parents])"

    def _begin(self) -> None:
        self._chunks = [END for _ in self._parents]
        self._snapshots: list[Callable[[], Any]] = list(map(captured_state, self._parents))

    def _pull(self, limit: int) -> Chunk:
        chunks = self._chunks
        for number, parent in enumerate(self._parents):
            if chunks[number].elements:
                continue
            before = self._snapshots[number]() if chunks[number].live else self._snapshots[number]
            try:
                chunks[number] = parent.next_chunk(limit)
            except Exception:
                self._keep_aligned(number, before() if callable(before) else before)
                raise
            if not chunks[number].elements:
                return self._end(number)
        count = min(len(chunk.elements) for chunk in chunks)
        count = min(count, max(1, limit))
        tuples = list(zip(*[chunk.elements[:count] for chunk in chunks], strict=True))
        given = list(chunks)
        self._snapshots = [chunk.snapshot(count - 1) for chunk in given]
        self._chunks = [chunk.rest(count) for chunk in given]
        live = any(chunk.live for chunk in given)
        return Chunk(
            tuples, lambda offset: _state([chunk.snapshot(offset) for chunk in given]), live
        )

    def _keep_aligned(self, number: int, before: Any) -> None:
        """Drop an element of every other parent when the one at `number` lost one to an error."""
        after = self._parents[number].get_state()
        if after == before:
            return  # The same element will be read again.
        self._snapshots[number] = constant(copied_state(after))
        for other, parent in enumerate(self._parents):
            if other == number:
                continue
            if not self._chunks[other].elements:
                self._chunks[other] = parent.next_chunk(1)
            chunk = self._chunks[other]
            if chunk.elements:
                self._snapshots[other] = chunk.snapshot(0)
                self._chunks[other] = chunk.rest(1)

    def _end(self, number: int) -> Chunk:
        """End the stream at the end of the parent at `number`; elements of earlier parents are lost."""
        for earlier in range(number):
            self._snapshots[earlier] = self._chunks[earlier].snapshot(0)
        self._snapshots[number] = captured_state(self._parents[number])
        if not self._strict:
            return END
        if number:
            # Message kept from google/grain 0.2.18
            raise ValueError(
                f"ZipIterDataset argument {number + 1} is shorter than {_arguments(number)}"
            )
        for other in range(1, len(self._parents)):
            if not self._chunks[other].elements:
                self._chunks[other] = self._parents[other].next_chunk(1)
            if self._chunks[other].elements:
                # Message kept from google/grain 0.2.18
                raise ValueError(
                    f"ZipIterDataset argument {other + 1} is longer than {_arguments(other)}"
                )
        return END

    def _live_state(self) -> Any:
        return _state(self._snapshots)

    def _live_state_function(self) -> Callable[[], Any]:
        if any(chunk.live for chunk in self._chunks):
            return super()._live_state_function()
        return partial(_state, list(self._snapshots))

    def _restore(self, state: Any) -> None:
        states = state_field(state, "parents", self)
        if len(states) != len(self._parents):
            raise ValueError(
                f"The state for {self} holds {len(states)} parents, but there are "
                f"{len(self._parents)}."
            )
        for parent, parent_state in zip(self._parents, states, strict=True):
            parent.restore_as_parent(parent_state)
        self._begin()


def _arguments(count: int) -> str:
    return "argument 1" if count == 1 else f"arguments 1-{count}"


def _state(snapshots: Sequence[Callable[[], Any]]) -> dict[str, Any]:
    return {"parents": [snapshot() for snapshot in snapshots]}
