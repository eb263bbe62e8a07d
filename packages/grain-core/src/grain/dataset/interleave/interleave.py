"""Reading several datasets interleaved, round robin, a few of them at a time."""

from __future__ import annotations

import functools
import itertools
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self, TypeVar

from grain._chunk_size import ChunkSizeController
from grain._exceptions import add_note
from grain._policy import current_policy
from grain.dataset.chunk import END, Chunk
from grain.dataset.element_spec import get_element_spec
from grain.dataset.interleave.cycle import CycleSlot
from grain.dataset.interleave.opener import IteratorOpener, check_dataset
from grain.dataset.iter_dataset import IterDataset
from grain.dataset.iterator import ChunkIterator, DatasetIterator, state_field
from grain.dataset.map_dataset import MapDataset
from grain.dataset.node import DatasetNode, ExecutionTrait, lines
from grain.dataset.parent_cursor import constant
from grain.options import checked_int

T = TypeVar("T")


class InterleaveIterDataset(IterDataset[T]):
    """One element of each of `cycle_length` datasets, round robin; a dataset that ends is replaced.

    Args:
        datasets: A sequence of datasets, which may also be a `MapDataset` of datasets, made one by one
            as they are needed.
        cycle_length: Number of datasets that are read interleaved.
        num_make_iter_threads: Number of datasets that may be opened ahead at a time, where opening is
            slow; 0 opens each when it is due.
        make_iter_buffer_size: Number of datasets opened ahead of those in the cycle.
        iter_buffer_size: Number of elements that a thread may read ahead in each dataset of the cycle,
            where elements are slow; 0 reads nothing ahead. Datasets that are quick to read get no
            threads.

    None of the last three changes elements, their order or states.

    >>> import grain
    >>> files = [grain.MapDataset.range(i, i + 3) for i in (0, 10, 20)]
    >>> list(InterleaveIterDataset(files, cycle_length=2))
    [0, 10, 1, 11, 2, 12, 20, 21, 22]
    """

    fingerprint_name = "interleave"

    def __init__(
        self,
        datasets: Sequence[IterDataset[T] | MapDataset[T]],
        *,
        cycle_length: int,
        num_make_iter_threads: int = 1,
        make_iter_buffer_size: int = 1,
        iter_buffer_size: int = 1,
    ):
        super().__init__()
        for name in ("__len__", "__getitem__"):
            if not hasattr(type(datasets), name):
                raise TypeError(
                    "InterleaveIterDataset needs a sequence of datasets, got "
                    f"{type(datasets).__name__}."
                )
        if not len(datasets):
            raise ValueError("InterleaveIterDataset needs at least one dataset, got none.")
        if isinstance(datasets, (list, tuple)):
            for number, dataset in enumerate(datasets):
                check_dataset(dataset, number)
        self._datasets: Any = datasets
        self._cycle_length = checked_int("cycle_length", cycle_length, least=1)
        self._threads = checked_int("num_make_iter_threads", num_make_iter_threads, least=0)
        self._opened_ahead = checked_int("make_iter_buffer_size", make_iter_buffer_size, least=0)
        self._read_ahead = checked_int("iter_buffer_size", iter_buffer_size, least=0)

    execution_trait = ExecutionTrait.INTERLEAVED

    @property
    def interleaved_datasets(self) -> Any:
        """The datasets, as they were given."""
        return self._datasets

    def make_iterator(
        self,
        parents: Sequence[DatasetIterator[Any]],
        open_dataset: Callable[[Any], DatasetIterator[Any]] | None = None,
    ) -> DatasetIterator[T]:
        """Return the iterator; `open_dataset` makes those of the datasets where workers compute them."""
        del parents
        return InterleaveDatasetIterator(
            self._datasets,
            self._cycle_length,
            self._threads,
            self._opened_ahead,
            self._read_ahead,
            open_dataset,
        )

    def __str__(self) -> str:
        return (
            f"InterleaveIterDataset([{len(self._datasets)} datasets], "
            f"cycle_length={self._cycle_length})"
        )

    def set_slice(self, sl: slice, sequential_slice: bool = False) -> None:
        """Keep only a slice of the datasets; worker processes do not need it here."""
        del sequential_slice
        self._datasets = self._datasets[sl]

    def known_length(self) -> int | None:
        if not isinstance(self._datasets, (list, tuple)):
            return None
        total = 0
        for dataset in self._datasets:
            length = dataset.to_iter_dataset() if isinstance(dataset, MapDataset) else dataset
            known = length.known_length()
            if known is None:
                return None
            total += known
        return total

    def for_epoch(self, epoch: int) -> Self:
        node = super().for_epoch(epoch)
        if isinstance(self._datasets, (list, tuple)):
            node._datasets = [dataset.for_epoch(epoch) for dataset in self._datasets]
        return node

    def written_call(self) -> str:
        count = (
            f"{len(self._datasets)} datasets" if hasattr(self._datasets, "__len__") else "datasets"
        )
        return f"InterleaveIterDataset(<{count}>, cycle_length={self._cycle_length})"

    def fingerprint_arguments(self) -> dict[str, Any]:
        return {"cycle_length": self._cycle_length}

    def fingerprint(self) -> list[lines.Line]:
        datasets = self._datasets
        if isinstance(datasets, (list, tuple)):
            nested = lines.nested_lines(enumerate(datasets))
        elif isinstance(datasets, DatasetNode):
            nested = datasets.fingerprint()
        else:
            kind = type(datasets).__qualname__
            nested = [lines.Line("source", f"{kind} of {len(datasets)} datasets")]
        return [*nested, lines.operation_line(self)]

    def infer_element_spec(self) -> Any:
        return get_element_spec(self._datasets[0])


# A cycle slot as a state describes it: its dataset, the state of that, whether it is exhausted.
_SlotState = tuple[int, Callable[[], Any], bool]


class InterleaveDatasetIterator(ChunkIterator[T]):
    """An iterator that takes whole rounds of the cycle in one chunk, while all slots have elements.

    An exhausted dataset is replaced when its slot is due again, not at once.
    """

    def __init__(
        self,
        datasets: Any,
        cycle_length: int,
        threads: int,
        opened_ahead: int,
        read_ahead: int,
        open_dataset: Callable[[Any], DatasetIterator[Any]] | None = None,
    ):
        super().__init__()
        self._datasets = datasets
        self._opened_ahead = opened_ahead
        count = min(cycle_length, len(datasets))
        self._slots = [CycleSlot(number) for number in range(count)]
        self._exhausted = 0  # Number of slots that wait for another dataset.
        self._next_slot = 0
        self._next_dataset = count
        self._future: dict[int, Any] = {}
        self._opener = IteratorOpener(datasets, self._context, threads, read_ahead, open_dataset)
        policy = current_policy()
        self._slot_chunk_size = ChunkSizeController(
            policy.interleave_chunk_seconds, policy.max_interleave_chunk
        )

    def __str__(self) -> str:
        return (
            f"InterleaveDatasetIterator([{len(self._datasets)} datasets], "
            f"cycle_length={len(self._slots)})"
        )

    def _open(self, slot: CycleSlot) -> DatasetIterator[Any]:
        """Return the iterator of a slot, opened at first use."""
        if slot.iterator is None and (self._opener.slow_to_open or not self._opener.in_threads):
            self._open_ahead()
        return self._opener.open(slot)

    def _open_ahead(self, start: bool = False) -> None:
        """Open ahead the datasets that are read next."""
        slots = self._slots[self._next_slot :] + self._slots[: self._next_slot]
        count = self._opened_ahead if self._opener.in_threads else 1
        last = min(self._next_dataset + count, len(self._datasets))
        more = [
            CycleSlot(number, self._future.get(number))
            for number in range(self._next_dataset, last)
        ]
        self._opener.ahead(slots, more, start)

    def _fill(self, slot: CycleSlot, share: int) -> None:
        """Read more of a slot; an error is kept until the slot is due."""
        fresh = slot.iterator is None
        self._opener.reconsider_read_ahead(slot)
        # Quick datasets are read further than the next rounds, to pay less often.
        wanted = max(share, min(self._slot_chunk_size.size, max(4, share) * share))
        started = time.perf_counter()
        try:
            iterator = self._open(slot)
            if not (slot.available or slot.ended or slot.error):
                slot.set_chunk(END)
                slot.set_chunk(iterator.next_chunk(wanted))
                slot.ended = not slot.chunk.elements
        except Exception as error:
            slot.error = error
            return
        seconds = time.perf_counter() - started
        if not fresh:
            self._opener.consider_read_ahead(slot, seconds)
            # A full chunk counts even if only a part of the size was requested.
            full = slot.available >= wanted
            self._slot_chunk_size.observe(range(self._slot_chunk_size.size * full), seconds)

    def _pull(self, limit: int) -> Chunk:
        while not self._is_over():
            positions, rounds = self._ready(max(1, limit))
            if positions:
                return self._take(positions, rounds)
        return END

    def _is_over(self) -> bool:
        return self._exhausted == len(self._slots) and self._next_dataset == len(self._datasets)

    def _ready(self, limit: int) -> tuple[list[int], int]:
        """Return the positions of the slots that are due and have elements, and for how many rounds.

        A slot that has an end or an error instead of an element ends the round: it is handled when
        it is due first.
        """
        slots, first = self._slots, self._next_slot
        last_dataset = self._next_dataset == len(self._datasets)
        ready: list[int] = []
        for position in itertools.chain(range(first, len(slots)), range(first)):
            slot = slots[position]
            if slot.exhausted:
                if last_dataset:
                    continue
                if ready:
                    return ready, 1
                slot = self._replace(position)
            if not slot.available:
                if ready and slot.chunk.live:
                    # Reading further would invalidate a live state.
                    return ready, 1
                if not (slot.ended or slot.error):
                    active = len(slots) - (self._exhausted if last_dataset else 0)
                    self._fill(slot, max(1, limit // active))
            if ready and (slot.chunk.live or not slot.available):
                return ready, 1
            if not slot.available:
                self._skip(position)
                return [], 0
            ready.append(position)
            if slot.chunk.live or len(ready) == limit:
                return ready, 1
        rounds = min(limit // len(ready), min(slots[position].available for position in ready))
        return ready, rounds

    def _replace(self, position: int) -> CycleSlot:
        number = self._next_dataset
        slot = self._slots[position] = CycleSlot(number, self._future.pop(number, None))
        self._next_dataset += 1
        self._exhausted -= 1
        return slot

    def _skip(self, position: int) -> None:
        """Raise the error of a slot without elements, or mark it as exhausted and skip it."""
        slot = self._slots[position]
        if slot.error is not None:
            error, slot.error = slot.error, None
            if slot.iterator is not None:
                slot.state = constant(slot.iterator.get_state())
            raise error
        assert slot.iterator is not None
        slot.state = constant(slot.iterator.get_state())
        slot.exhausted = True
        self._exhausted += 1
        slot.iterator.close()
        self._next_slot = (position + 1) % len(self._slots)

    def _slot_states(self) -> list[_SlotState]:
        """Return what a state holds of each slot."""
        return [
            (
                slot.number,
                slot.state or functools.partial(self._opener.first_state, slot),
                slot.exhausted,
            )
            for slot in self._slots
        ]

    def _take(self, positions: list[int], rounds: int) -> Chunk:
        """Return a chunk of whole rounds through the slots at some positions."""
        before, future, next_dataset = self._slot_states(), dict(self._future), self._next_dataset
        slots = [self._slots[position] for position in positions]
        after = [(slot.chunk.state_after, slot.taken - 1) for slot in slots]
        width, cycle = len(slots), len(self._slots)
        elements: list[Any] = [None] * (width * rounds)
        for number, slot in enumerate(slots):
            elements[number::width] = slot.take(rounds)
        self._next_slot = (positions[-1] + 1) % cycle

        def state_after(element: int) -> Any:
            done, last = divmod(element, width)
            slot_states = list(before)
            for number, position in enumerate(positions):
                if taken := done + (number <= last):
                    state, start = after[number]
                    state_of_slot = functools.partial(state, start + taken)
                    slot_states[position] = (before[position][0], state_of_slot, False)
            return _state(slot_states, (positions[last] + 1) % cycle, next_dataset, future)

        return Chunk(elements, state_after, live=any(slot.chunk.live for slot in self._slots))

    def state_function(self) -> Callable[[], Any] | None:
        """Return a function of the current state; datasets are opened for it only when it is called."""
        if self._rollback is not None:
            return self._rollback
        if self._chunk.elements:
            return (
                super().state_function()
                if self._chunk.live
                else self._chunk.snapshot(self._taken() - 1)
            )
        for slot in self._slots:
            slot.hold_state()
        return functools.partial(
            _state, self._slot_states(), self._next_slot, self._next_dataset, dict(self._future)
        )

    def index_from_state(self, state: Any) -> int:
        states = state_field(state, "iterators_in_use_states", self)
        return self._only_iterator("get_next_index").index_from_state(states[0])

    def state_from_index(self, index: int) -> Any:
        iterator = self._only_iterator("set_next_index")
        return {
            **self.get_state(),
            "next_index_in_cycle": 0,
            "iterators_in_use_states": [iterator.state_from_index(index)],
            "exhausted": [0],
        }

    def _only_iterator(self, function: str) -> DatasetIterator[Any]:
        if len(self._datasets) > 1:
            # Message kept from google/grain 0.2.18
            raise NotImplementedError(
                f"{function} is not supported for InterleaveDatasetIterator with more than one dataset."
            )
        return self._open(self._slots[0])

    def _live_state(self) -> Any:
        return _state(self._slot_states(), self._next_slot, self._next_dataset, self._future)

    def _restore(self, state: Any) -> None:
        count = len(self._datasets)
        numbers, states, exhausted = (
            self._items(state, name)
            for name in ("iterators_in_use_indices", "iterators_in_use_states", "exhausted")
        )
        next_dataset = self._count(state, "next_index_in_datasets")
        next_slot = self._count(state, "next_index_in_cycle")
        if not set(map(type, numbers)) <= {int}:
            numbers = [checked_int("A dataset's number in a state", n, least=0) for n in numbers]
        # Datasets are opened in order, so those in the cycle come before the next one, each once.
        known = not numbers or 0 <= min(numbers) <= max(numbers) < next_dataset <= count
        if len(numbers) != len(self._slots) or not known or len(set(numbers)) != len(numbers):
            raise ValueError(
                f"The state for {self} is of another set of datasets: its cycle holds the "
                f"datasets {numbers}."
            )
        if next_slot >= max(1, len(numbers)):
            raise ValueError(
                f"`next_index_in_cycle` of the state for {self} must be in 0..{len(numbers) - 1}, got "
                f"{next_slot}."
            )
        if not len(numbers) == len(states) == len(exhausted):
            raise ValueError(
                f"The state for {self} has {len(numbers)} datasets in its cycle, but {len(states)} "
                f"states and {len(exhausted)} marks of exhausted ones."
            )
        if not (set(map(type, exhausted)) <= {int, bool} and set(exhausted) <= {0, 1}):
            raise ValueError(
                f"`exhausted` of the state for {self} must hold 0 and 1, got {exhausted!r:.200}."
            )
        slots = [
            CycleSlot(number, slot_state, bool(over))
            for number, slot_state, over in zip(numbers, states, exhausted, strict=True)
        ]
        future = self._future_states(state, count)
        later = [CycleSlot(n, future[n]) for n in sorted(future) if n >= next_dataset]
        opener = self._check_states(slots, later)
        self._close_slots()
        self._opener, self._slots = opener, slots
        self._exhausted = sum(slot.exhausted for slot in slots)
        self._next_slot, self._next_dataset = next_slot, next_dataset
        self._future = future
        if self._closed:
            self._close_slots()

    def _count(self, state: Any, name: str) -> int:
        return checked_int(f"`{name}` of a state", state_field(state, name, self), least=0)

    def _items(self, state: Any, name: str) -> list[Any]:
        found = state_field(state, name, self)
        if not isinstance(found, (list, tuple)):
            raise TypeError(f"`{name}` of the state for {self} must be a list, got {found!r:.200}.")
        return list(found)

    def _future_states(self, state: Any, count: int) -> dict[int, Any]:
        """Return the states of datasets that are not in the cycle yet, by number."""
        future = state.get("future_states") or {}
        if not isinstance(future, Mapping):
            raise TypeError(
                f"`future_states` of the state for {self} must map the numbers of datasets to their "
                f"states, got {future!r:.200}."
            )
        numbers = {str(number): number for number in range(count)} if future else {}
        unknown = [number for number in future if str(number) not in numbers]
        if unknown:
            raise ValueError(
                f"`future_states` of the state for {self} must name datasets in 0..{count - 1}, got "
                f"{unknown!r:.200}."
            )
        return {numbers[str(number)]: future_state for number, future_state in future.items()}

    def _check_states(self, slots: list[CycleSlot], later: list[CycleSlot]) -> IteratorOpener:
        """Raise an error unless all datasets accept the states of their slots; return the opener to use.

        A dataset whose iterator must judge the state itself is opened for that. It stays open if it is
        in the cycle, where the next round needs it.
        """
        unsure = self._unsure([slot for slot in slots if not slot.exhausted])
        later = self._unsure(later)
        if not unsure and not later:
            return self._opener
        opener = self._opener.successor()
        try:
            for slot in (*unsure, *later):
                if opener.slow_to_open:
                    opener.ahead(unsure, ())
                try:
                    opener.open(slot)
                except Exception as error:
                    add_note(error, f"raised when dataset {slot.number} of {self} was restored.")
                    raise
        except BaseException:
            opener.close()
            for slot in (*unsure, *later):
                slot.drop()
            raise
        for slot in later:
            slot.drop()
        return opener

    def _unsure(self, slots: list[CycleSlot]) -> list[CycleSlot]:
        """Return the slots whose datasets may refuse their states; without a state they start afresh."""
        datasets = self._datasets
        # Other sequences may make a dataset at each access.
        listed = isinstance(datasets, (list, tuple))
        return [
            slot
            for slot in slots
            if (state := slot.state) is not None
            and not (listed and datasets[slot.number].accepts_state(state()))
        ]

    def start_prefetch(self) -> None:
        """Start opening and reading all datasets of the cycle."""
        self._assert_not_closed()
        self._opener.eager = True
        self._open_ahead(start=True)
        for slot in self._slots:
            if slot.iterator is not None and not slot.exhausted:
                slot.iterator.start_prefetch()

    def close(self) -> None:
        """Close the open datasets."""
        super().close()
        self._close_slots()

    def _close_slots(self) -> None:
        self._opener.close()
        for slot in self._slots:
            slot.drop()


def _state(
    slots: list[_SlotState], next_slot: int, next_dataset: int, future: Mapping[int, Any]
) -> dict[str, Any]:
    return {
        "next_index_in_cycle": next_slot,
        "next_index_in_datasets": next_dataset,
        "iterators_in_use_indices": [number for number, _, _ in slots],
        "iterators_in_use_states": [state() for _, state, _ in slots],
        "exhausted": [int(exhausted) for _, _, exhausted in slots],
        "future_states": {str(number): state for number, state in future.items()},
    }
