"""Elements split into several: the map form has a fixed number of indices per element, the iter form none."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np

from grain import transforms
from grain._exceptions import add_note, as_failure, note_element, transform_name
from grain._user_code import calls_user_code
from grain.dataset.chunk import END, Chunk, PartialRead
from grain.dataset.iter_dataset import IterDataset
from grain.dataset.iterator import ChunkIterator, DatasetIterator, state_field
from grain.dataset.map_dataset import IndexedMapDataset, MapDataset
from grain.dataset.node import computed
from grain.dataset.validation import checked_iter_parent, checked_map_parent
from grain.index.permutation import IndexArray
from grain.options import checked_int

T = TypeVar("T")


def flat_map(
    dataset: MapDataset[Any] | IterDataset[Any], transform: transforms.FlatMap
) -> MapDataset[Any] | IterDataset[Any]:
    """Split the elements of a dataset of either kind."""
    if isinstance(dataset, MapDataset):
        return FlatMapMapDataset(dataset, transform)
    return FlatMapIterDataset(dataset, transform)


def _checked(transform: Any) -> transforms.FlatMap:
    if not isinstance(transform, transforms.FlatMap):
        raise TypeError(
            f"`flat_map` needs an instance of grain.transforms.FlatMap, got {transform!r} of type "
            f"{type(transform).__name__}."
        )
    return transform


class FlatMapMapDataset(IndexedMapDataset[T]):
    """The pieces of each element at `max_fan_out` indices; those without a piece are None."""

    fingerprint_name = "flat_map"

    def __init__(self, parent: MapDataset[Any], transform: transforms.FlatMap):
        super().__init__(checked_map_parent("FlatMapMapDataset", parent))
        self._transform = _checked(transform)
        self._fan_out = checked_int("max_fan_out", transform.max_fan_out, least=1)
        self._length = min(len(parent) * self._fan_out, sys.maxsize)

    def __len__(self) -> int:
        return self._length

    def __str__(self) -> str:
        return f"FlatMapMapDataset(transform={transform_name(self._transform)})"

    @computed
    def is_sparse(self) -> bool:
        return True

    @computed
    def is_surely_sparse(self) -> bool:
        return True

    def read_many(self, indices: IndexArray) -> list[Any]:
        if not indices.size:
            return []
        owners = indices // self._fan_out
        pieces = (indices - owners * self._fan_out).tolist()
        # Neighbouring indices often share their element: it is read and split once.
        starts = np.flatnonzero(np.concatenate([[True], owners[1:] != owners[:-1]]))
        elements = self._parent.read_many(owners[starts])
        ends = [*starts[1:].tolist(), len(pieces)]
        out: list[Any] = []
        for element, end in zip(elements, ends, strict=False):
            try:
                parts = [] if element is None else self._split(element)
            except Exception as raised:
                error = as_failure(raised)
                note_element(error, self, int(indices[len(out)]), self.describe_sources())
                return PartialRead(out, error)
            count = len(parts)
            out.extend(parts[piece] if piece < count else None for piece in pieces[len(out) : end])
        if isinstance(elements, PartialRead):
            return PartialRead(out, elements.error)
        return out

    def read_one(self, index: int) -> Any:
        owner, piece = divmod(index, self._fan_out)
        element = self._parents[0].read_one(owner)
        if element is None:
            return None
        error: Exception | None = None
        try:
            parts = self._split(element)
        except Exception as raised:
            error = as_failure(raised)
        if error is not None:
            note_element(error, self, index, self.describe_sources())
            raise error
        return parts[piece] if piece < len(parts) else None

    @calls_user_code
    def _split(self, element: Any) -> Sequence[Any]:
        parts = self._transform.flat_map(element)
        if not isinstance(parts, (list, tuple)):
            # It may be a generator; one piece too many is enough to refuse it.
            most = None if hasattr(parts, "__len__") else self._fan_out + 1
            parts = list(itertools.islice(parts, most))
        if len(parts) > self._fan_out:
            # Message kept from google/grain 0.2.18
            raise ValueError(
                "The user-provided FlatMapTransform has a split that exceeds specified max fan-out "
                f"size: {len(parts)} pieces, max_fan_out={self._fan_out}. To address this, you can "
                "raise the max fan-out size, but for a max fan-out size >100, performance may suffer. "
                "Please consider preprocessing your data to keep the max fan-out size reasonable."
            )
        return parts

    def fingerprint_arguments(self) -> dict[str, Any]:
        return {"transform": self._transform}


def _from(parts: Any, skip: int) -> list[Any]:
    """Return the pieces after the first `skip`; a generator yields them one by one."""
    if hasattr(parts, "__getitem__"):
        return list(parts[skip:])
    return list(itertools.islice(parts, skip, None))


class FlatMapIterDataset(IterDataset[T]):
    """The pieces of each element, in order."""

    fingerprint_name = "flat_map"

    def __init__(self, parent: IterDataset[Any], transform: transforms.FlatMap):
        super().__init__(checked_iter_parent(type(self).__name__, parent))
        self._transform = _checked(transform)

    def make_iterator(self, parents: Sequence[DatasetIterator[Any]]) -> DatasetIterator[T]:
        return FlatMapDatasetIterator(parents[0], self, self._transform)

    def __str__(self) -> str:
        return f"FlatMapIterDataset(transform={transform_name(self._transform)})"

    def fingerprint_arguments(self) -> dict[str, Any]:
        return {"transform": self._transform}


class FlatMapDatasetIterator(ChunkIterator[T]):
    """An iterator that splits element by element.

    The state is the parent's before the element being split, and the number of its pieces that were
    returned; restoring splits that element again.
    """

    def __init__(
        self,
        parent: DatasetIterator[Any],
        dataset: FlatMapIterDataset[T],
        transform: transforms.FlatMap,
    ):
        super().__init__(parent)
        self._dataset = dataset
        self._transform = transform
        self._restart(0)

    def __str__(self) -> str:
        return f"FlatMapDatasetIterator(transform={transform_name(self._transform)})"

    def _restart(self, given: int) -> None:
        self._held = END
        # The parent's state before the first element that is still to be split.
        self._before: Callable[[], Any] = self._parent.get_state
        self._skip = given
        # For `_live_state`: the state before the element that was split last, and its returned pieces.
        self._last: tuple[Callable[[], Any], int] = (self._before, given)

    @calls_user_code
    def _pull(self, limit: int) -> Chunk:
        pieces: list[Any] = []
        states: list[tuple[Callable[[], Any], int]] = []
        while len(pieces) < limit:
            chunk, self._held = self._held, END
            if not chunk.elements:
                # Captured now, since reading further invalidates the state of a live parent.
                self._before = _constant(self._before())
                chunk = self._parent.next_chunk(limit)
                if not chunk.elements:
                    self._last = (self._before, 0)
                    break
            for offset, element in enumerate(chunk.elements):
                before = self._before
                self._before = chunk.snapshot(offset)
                try:
                    parts = self._transform.flat_map(element)
                    fresh = _from(parts, self._skip)
                except Exception as raised:
                    error = as_failure(raised)
                    add_note(
                        error,
                        f"raised in {self._dataset}, over {self._dataset.describe_sources()}.",
                    )
                    self._held = chunk.rest(offset + 1)
                    self._skip = 0
                    self._last = (self._before, 0)
                    return self._fail_after(error, self._chunk_of(pieces, states, chunk.live))
                first = self._skip + 1
                pieces.extend(fresh)
                states.extend((before, first + number) for number in range(len(fresh)))
                self._last = (before, self._skip + len(fresh))
                self._skip = 0
                if len(pieces) >= limit:
                    self._held = chunk.rest(offset + 1)
                    break
            if chunk.live and pieces:
                return self._chunk_of(pieces, states, live=True)
        return self._chunk_of(pieces, states, live=False)

    def _chunk_of(
        self, pieces: list[Any], states: list[tuple[Callable[[], Any], int]], live: bool
    ) -> Chunk:
        if not pieces:
            return END
        return Chunk(pieces, lambda offset: _state(*states[offset]), live)

    def _live_state(self) -> Any:
        return _state(*self._last)

    def _restore(self, state: Any) -> None:
        found = state_field(state, "next_index_in_buffer", self)
        given = checked_int("`next_index_in_buffer` of a state", found, least=0)
        self._parent.set_state(state_field(state, "parent", self))
        self._restart(given)


def _constant(value: Any) -> Callable[[], Any]:
    return lambda: value


def _state(before: Callable[[], Any], given: int) -> dict[str, Any]:
    return {"parent": before(), "next_index_in_buffer": given}
