"""Elements split into several: the map form has a fixed number of indices per element, the iter form none."""

from __future__ import annotations

import bisect
import dataclasses
import itertools
import sys
from collections.abc import Callable, Sequence
from functools import partial
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


@dataclasses.dataclass(frozen=True, slots=True)
class _Failure:
    """Why elements could not be read or split.

    Attributes:
        error: The error.
        raised_here: Whether splitting raised it, not the parent.
    """

    error: Exception
    raised_here: bool


class FlatMapMapDataset(IndexedMapDataset[T]):
    """The pieces of each element at `max_fan_out` indices; those without a piece are None."""

    fingerprint_name = "flat_map"

    def __init__(
        self: FlatMapMapDataset[Any], parent: MapDataset[Any], transform: transforms.FlatMap
    ):
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
        count = indices.size
        if not count:
            return []
        first = int(indices[0])
        if int(indices[-1]) - first == count - 1 and bool((indices[1:] - indices[:-1] == 1).all()):
            return self._read_range(first, count)
        owners = indices // self._fan_out
        # Neighbouring indices often share their element: it is read and split once.
        starts = np.flatnonzero(np.concatenate([[True], owners[1:] != owners[:-1]]))
        padded, failure = self._split_and_pad(self._parent.read_many(owners[starts]))
        # The position of each index among the pieces of all elements.
        numbers = np.repeat(np.arange(starts.size), np.diff(starts, append=count))
        positions = (numbers * self._fan_out + indices - owners * self._fan_out).tolist()
        if failure is None:
            return [padded[position] for position in positions]
        known = int(np.searchsorted(numbers, len(padded) // self._fan_out))
        out = [padded[position] for position in positions[:known]]
        return self._partial(out, failure, int(indices[known]))

    def _read_range(self, first: int, count: int) -> list[Any]:
        """Return the elements at consecutive indices."""
        fan_out = self._fan_out
        owner, skipped = divmod(first, fan_out)
        end = -(-(first + count) // fan_out)
        owners = np.arange(owner, end, dtype=np.int64)
        padded, failure = self._split_and_pad(self._parent.read_many(owners))
        out = padded[skipped : skipped + count] if skipped or len(padded) > count else padded
        return out if failure is None else self._partial(out, failure, first + len(out))

    def _partial(self, out: list[Any], failure: _Failure, index: int) -> PartialRead:
        if failure.raised_here:
            note_element(failure.error, self, index, self.describe_sources())
        return PartialRead(out, failure.error)

    @calls_user_code
    def _split_and_pad(self, elements: list[Any]) -> tuple[list[Any], _Failure | None]:
        """Return `max_fan_out` values for each element: its pieces, then None; and the first failure."""
        split, fan_out = self._transform.flat_map, self._fan_out
        nothing = [None] * fan_out
        padded: list[Any] = []
        try:
            for element in elements:
                if element is None:
                    padded += nothing
                    continue
                parts = split(element)
                if type(parts) is not list or len(parts) > fan_out:
                    parts = self._checked_parts(parts)
                padded += parts
                padded += nothing[len(parts) :]
        except Exception as raised:
            return padded, _Failure(as_failure(raised), raised_here=True)
        if isinstance(elements, PartialRead):
            return padded, _Failure(elements.error, raised_here=False)
        return padded, None

    @calls_user_code
    def read_one(self, index: int) -> Any:
        owner, piece = divmod(index, self._fan_out)
        element = self._parents[0].read_one(owner)
        if element is None:
            return None
        error: Exception | None = None
        try:
            parts = self._transform.flat_map(element)
            if type(parts) is not list or len(parts) > self._fan_out:
                parts = self._checked_parts(parts)
        except Exception as raised:
            error = as_failure(raised)
        if error is not None:
            note_element(error, self, index, self.describe_sources())
            raise error
        return parts[piece] if piece < len(parts) else None

    @calls_user_code
    def _checked_parts(self, parts: Any) -> Sequence[Any]:
        """Return the pieces of an element as a list or tuple, or raise an error if there are too many."""
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
        return parts  # type: ignore[no-any-return]

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

    def __init__(
        self: FlatMapIterDataset[Any], parent: IterDataset[Any], transform: transforms.FlatMap
    ):
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
        while True:
            chunk, self._held = self._held, END
            if not chunk.elements:
                # Captured now, since reading further invalidates the state of a live parent.
                self._before = _constant(self._before())
                chunk = self._parent.next_chunk(limit)
            if not chunk.elements:
                self._last = (self._before, 0)
                return END
            before, skip = self._before, self._skip
            split = self._transform.flat_map
            pieces: list[Any] = []
            ends: list[int] = []
            error: Exception | None = None
            try:
                for element in chunk.elements:
                    parts = split(element)
                    if type(parts) is not list or skip:
                        parts, skip = _from(parts, skip), 0
                    pieces += parts
                    ends.append(len(pieces))
                    if len(pieces) >= limit:
                        break
            except Exception as raised:
                error = as_failure(raised)
            states = _PieceStates(before, self._skip, chunk.state_after, ends)
            made = Chunk(pieces, states, chunk.live) if pieces else END
            split_now = len(ends)
            if split_now:
                self._skip = 0
                self._last = states.position(split_now - 1)
                self._before = chunk.snapshot(split_now - 1)
            if error is not None:
                # The element that failed is lost.
                self._skip = 0
                self._before = chunk.snapshot(split_now)
                self._last = (self._before, 0)
                self._held = chunk.rest(split_now + 1)
                dataset = self._dataset
                add_note(error, f"raised in {dataset}, over {dataset.describe_sources()}.")
                return self._fail_after(error, made)
            self._held = chunk.rest(split_now)
            if pieces:
                return made

    def _live_state(self) -> Any:
        return _state(*self._last)

    def _restore(self, state: Any) -> None:
        found = state_field(state, "next_index_in_buffer", self)
        given = checked_int("`next_index_in_buffer` of a state", found, least=0)
        self._parent.restore_as_parent(state_field(state, "parent", self))
        self._restart(given)


class _PieceStates:
    """The states after each piece of a chunk.

    Args:
        before: Function of the parent's state before the first element.
        skipped: The number of pieces of the first element that were returned earlier.
        state_after: The parent's states after each element.
        ends: The number of pieces up to the end of each element.
    """

    __slots__ = ("_before", "_ends", "_skipped", "_state_after")

    def __init__(
        self,
        before: Callable[[], Any],
        skipped: int,
        state_after: Callable[[int], Any],
        ends: list[int],
    ):
        self._before = before
        self._skipped = skipped
        self._state_after = state_after
        self._ends = ends

    def __call__(self, offset: int) -> Any:
        number = bisect.bisect_right(self._ends, offset)
        return _state(self._state_before(number), offset + 1 - self._pieces_before(number))

    def position(self, number: int) -> tuple[Callable[[], Any], int]:
        """Return the parent's state before an element and the number of pieces it was split into."""
        return self._state_before(number), self._ends[number] - self._pieces_before(number)

    def _state_before(self, number: int) -> Callable[[], Any]:
        return partial(self._state_after, number - 1) if number else self._before

    def _pieces_before(self, number: int) -> int:
        return self._ends[number - 1] if number else -self._skipped


def _constant(value: Any) -> Callable[[], Any]:
    return lambda: value


def _state(before: Callable[[], Any], given: int) -> dict[str, Any]:
    return {"parent": before(), "next_index_in_buffer": given}
