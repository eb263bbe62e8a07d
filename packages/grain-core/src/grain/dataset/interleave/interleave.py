"""Reading several datasets by turns, a few of them at a time."""

from __future__ import annotations

import functools
import itertools
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from grain._lazy import LazyModule
from grain.dataset.chunk import END, Chunk
from grain.dataset.element_spec import get_element_spec
from grain.dataset.interleave.cycle import CycleSlot
from grain.dataset.interleave.opener import Openings, check_dataset
from grain.dataset.iter_dataset import IterDataset
from grain.dataset.iterator import ChunkIterator, DatasetIterator, state_field
from grain.dataset.map_dataset import MapDataset
from grain.dataset.node import DatasetNode, ExecutionTrait
from grain.dataset.parent_cursor import constant
from grain.options import checked_int

# Few nodes are fingerprinted, and none by a worker.
if TYPE_CHECKING:
    from grain.dataset.fingerprint import lines
else:
    lines = LazyModule("grain.dataset.fingerprint.lines")

T = TypeVar("T")

# Datasets that are quick are read in stretches that take about so long, and are so long at most.
_STRETCH_SECONDS = 0.0001
_MAX_STRETCH = 1024


class InterleaveIterDataset(IterDataset[T]):
    """Takes one element of each of `cycle_length` datasets in turn; one that ends is replaced.

    Args:
      datasets: what is read; a sequence, which may also be a `MapDataset` of datasets, made one by
        one as they are needed.
      cycle_length: how many datasets are read by turns.
      num_make_iter_threads: how many datasets may be opened at a time before their turn, where that
        takes long; 0 opens each when its turn comes.
      make_iter_buffer_size: how many datasets are opened ahead of those in the cycle.
      iter_buffer_size: how many elements a thread may read ahead in each dataset of the cycle, where
        elements take long; 0 reads nothing ahead. Datasets that are quick to read get no threads.

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

    def make_iterator(self, parents: Sequence[DatasetIterator[Any]]) -> DatasetIterator[T]:
        del parents
        return InterleaveDatasetIterator(self)

    def __str__(self) -> str:
        return (
            f"InterleaveIterDataset([{len(self._datasets)} datasets], "
            f"cycle_length={self._cycle_length})"
        )

    def set_slice(self, sl: slice, sequential_slice: bool = False) -> None:
        """Keeps only some of the datasets; worker processes need no such slices here."""
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


# A place in the cycle: its dataset, that one's state, whether it is exhausted.
_Seen = tuple[int, Callable[[], Any], bool]


class InterleaveDatasetIterator(ChunkIterator[T]):
    """Goes round the cycle, by as many whole rounds at once as all datasets in it have elements for.

    An exhausted dataset is replaced when its turn comes again, not at once.
    """

    def __init__(self, dataset: InterleaveIterDataset[T]):
        super().__init__()
        self._dataset = dataset
        self._datasets = dataset._datasets
        count = min(dataset._cycle_length, len(self._datasets))
        self._turns = [CycleSlot(number) for number in range(count)]
        self._exhausted = 0  # So many places wait for another dataset.
        self._next_turn = 0
        self._next_dataset = count
        self._future: dict[int, Any] = {}
        self._openings = Openings(
            self._datasets, self._context, dataset._threads, dataset._read_ahead
        )
        self._stretch = 1

    def __str__(self) -> str:
        count = len(self._datasets)
        cycle_length = min(self._dataset._cycle_length, count)
        return f"InterleaveDatasetIterator([{count} datasets], cycle_length={cycle_length})"

    def _open(self, turn: CycleSlot) -> DatasetIterator[Any]:
        """The iterator of a dataset, made when it is needed first."""
        if turn.iterator is None and (
            self._openings.slow_to_open or self._context.executor is not None
        ):
            self._open_ahead()
        return self._openings.open(turn)

    def _open_ahead(self, start: bool = False) -> None:
        """Lets others open what is to be read next."""
        executor = self._context.executor is not None
        turns = self._turns[self._next_turn :] + self._turns[: self._next_turn]
        count = 1 if executor else self._dataset._opened_ahead
        last = min(self._next_dataset + count, len(self._datasets))
        more = [
            CycleSlot(number, self._future.get(number))
            for number in range(self._next_dataset, last)
        ]
        self._openings.ahead(turns, more, start)

    def _fill(self, turn: CycleSlot, share: int) -> None:
        """Reads on in a dataset; what goes wrong is told when its turn comes."""
        fresh = turn.iterator is None
        self._openings.reconsider(turn)
        # What is quick is read further than the next rounds go, to pay less often.
        wanted = max(share, min(self._stretch, max(4, share) * share))
        started = time.perf_counter()
        try:
            iterator = self._open(turn)
            if not (turn.available or turn.ended or turn.error):
                turn.set_chunk(END)
                turn.set_chunk(iterator.next_chunk(wanted))
                turn.ended = not turn.chunk.elements
        except Exception as error:
            turn.error = error
            return
        seconds = time.perf_counter() - started
        if not fresh:
            self._openings.judge(turn, seconds)
            if seconds > 4 * _STRETCH_SECONDS:
                self._stretch = max(1, self._stretch // 2)
            elif seconds < _STRETCH_SECONDS and turn.available >= wanted:
                self._stretch = min(_MAX_STRETCH, 2 * self._stretch)

    def _pull(self, limit: int) -> Chunk:
        while not self._is_over():
            places, rounds = self._ready(max(1, limit))
            if places:
                return self._take(places, rounds)
        return END

    def _is_over(self) -> bool:
        return self._exhausted == len(self._turns) and self._next_dataset == len(self._datasets)

    def _ready(self, limit: int) -> tuple[list[int], int]:
        """The places whose turn it is and that have elements, and for how many rounds.

        Something else than an element ends the round: it is dealt with when it comes first.
        """
        turns, first = self._turns, self._next_turn
        last_dataset = self._next_dataset == len(self._datasets)
        ready: list[int] = []
        for place in itertools.chain(range(first, len(turns)), range(first)):
            turn = turns[place]
            if turn.exhausted:
                if last_dataset:
                    continue
                if ready:
                    return ready, 1
                turn = self._replace(place)
            if not turn.available:
                if ready and turn.chunk.live:
                    # Reading on would change a state that somebody may still ask for.
                    return ready, 1
                if not (turn.ended or turn.error):
                    active = len(turns) - (self._exhausted if last_dataset else 0)
                    self._fill(turn, max(1, limit // active))
            if ready and (turn.chunk.live or not turn.available):
                return ready, 1
            if not turn.available:
                self._pass(place)
                return [], 0
            ready.append(place)
            if turn.chunk.live or len(ready) == limit:
                return ready, 1
        rounds = min(limit // len(ready), min(turns[place].available for place in ready))
        return ready, rounds

    def _replace(self, place: int) -> CycleSlot:
        number = self._next_dataset
        turn = self._turns[place] = CycleSlot(number, self._future.pop(number, None))
        self._next_dataset += 1
        self._exhausted -= 1
        return turn

    def _pass(self, place: int) -> None:
        """Does what is due where a dataset has no element: raises its error, or goes on to the next."""
        turn = self._turns[place]
        if turn.error is not None:
            error, turn.error = turn.error, None
            if turn.iterator is not None:
                turn.state = constant(turn.iterator.get_state())
            raise error
        assert turn.iterator is not None
        turn.state = constant(turn.iterator.get_state())
        turn.exhausted = True
        self._exhausted += 1
        turn.iterator.close()
        self._next_turn = (place + 1) % len(self._turns)

    def _seen(self) -> list[_Seen]:
        """What a state tells of each place in the cycle."""
        return [
            (
                turn.number,
                turn.state or functools.partial(self._openings.first_state, turn),
                turn.exhausted,
            )
            for turn in self._turns
        ]

    def _take(self, places: list[int], rounds: int) -> Chunk:
        """A chunk of whole rounds through some places, in turns."""
        before, future, next_dataset = self._seen(), dict(self._future), self._next_dataset
        turns = [self._turns[place] for place in places]
        after = [(turn.chunk.state_after, turn.taken - 1) for turn in turns]
        width, cycle = len(turns), len(self._turns)
        elements: list[Any] = [None] * (width * rounds)
        for number, turn in enumerate(turns):
            elements[number::width] = turn.take(rounds)
        self._next_turn = (places[-1] + 1) % cycle

        def state_after(element: int) -> Any:
            done, last = divmod(element, width)
            seen = list(before)
            for number, place in enumerate(places):
                if taken := done + (number <= last):
                    state, start = after[number]
                    state_of_place = functools.partial(state, start + taken)
                    seen[place] = (before[place][0], state_of_place, False)
            return _state(seen, (places[last] + 1) % cycle, next_dataset, future)

        return Chunk(elements, state_after, live=any(turn.chunk.live for turn in self._turns))

    def _here(self) -> Callable[[], Any] | None:
        """The same as for others, but asks only when it is needed: datasets may take long to open."""
        if self._back is not None:
            return self._back
        if self._chunk.elements:
            return super()._here() if self._chunk.live else self._chunk.snapshot(self._taken() - 1)
        for turn in self._turns:
            turn.hold_state()
        return functools.partial(
            _state, self._seen(), self._next_turn, self._next_dataset, dict(self._future)
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
        return self._open(self._turns[0])

    def _live_state(self) -> Any:
        return _state(self._seen(), self._next_turn, self._next_dataset, self._future)

    def _restore(self, state: Any) -> None:
        numbers = state_field(state, "iterators_in_use_indices", self)
        states = state_field(state, "iterators_in_use_states", self)
        exhausted = state_field(state, "exhausted", self)
        next_turn = int(state_field(state, "next_index_in_cycle", self))
        next_dataset = int(state_field(state, "next_index_in_datasets", self))
        count = len(self._datasets)
        if len(numbers) != len(self._turns) or any(not 0 <= n < count for n in numbers):
            raise ValueError(
                f"The state for {self} is of another set of datasets: it reads the datasets "
                f"{list(numbers)} by turns."
            )
        self._close_turns()
        self._turns = [
            CycleSlot(int(number), turn_state, bool(over))
            for number, turn_state, over in zip(numbers, states, exhausted, strict=True)
        ]
        self._exhausted = sum(turn.exhausted for turn in self._turns)
        self._next_turn, self._next_dataset = next_turn, next_dataset
        future = state.get("future_states") or {}
        self._future = {int(number): future_state for number, future_state in future.items()}

    def start_prefetch(self) -> None:
        """Begins to open and to read all datasets of the cycle."""
        self._assert_not_closed()
        self._openings.eager = True
        self._open_ahead(start=True)
        for turn in self._turns:
            if turn.iterator is not None and not turn.exhausted:
                turn.iterator.start_prefetch()

    def close(self) -> None:
        """Closes the datasets that are open."""
        super().close()
        self._close_turns()

    def _close_turns(self) -> None:
        self._openings.close()
        for turn in self._turns:
            turn.drop()


def _state(
    turns: list[_Seen], next_turn: int, next_dataset: int, future: Mapping[int, Any]
) -> dict[str, Any]:
    return {
        "next_index_in_cycle": next_turn,
        "next_index_in_datasets": next_dataset,
        "iterators_in_use_indices": [number for number, _, _ in turns],
        "iterators_in_use_states": [state() for _, state, _ in turns],
        "exhausted": [int(exhausted) for _, _, exhausted in turns],
        "future_states": {str(number): state for number, state in future.items()},
    }
