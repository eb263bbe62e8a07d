"""One host's part of each global step of a stream that all hosts read alike."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

from grain.dataset.chunk import END, Chunk
from grain.dataset.iter_dataset import IterDataset
from grain.dataset.iterator import ChunkIterator, DatasetIterator, state_field
from grain.dataset.parent_cursor import constant
from grain.dataset.shard_batches import Remainder, Share
from grain.index.sharding import global_share, global_steps
from grain.options import checked_int
from grain.sharding import ShardOptions


class GlobalStepsIterDataset(IterDataset[Share]):
    """For each batch of all hosts, the elements that one of them gets.

    Every host reads the whole stream and keeps its part. The state is a place in that stream: it is
    the same on all hosts, and does not depend on how many there are.

    Args:
      parent: the whole stream, the same on all hosts.
      global_batch_size: how many elements all hosts take together in a step.
      shard_options: which host this is.
      remainder: what becomes of elements at the end that are fewer than a global batch.
    """

    fingerprint_name = "elastic"

    def __init__(
        self,
        parent: IterDataset[Any],
        global_batch_size: int,
        shard_options: ShardOptions,
        remainder: Remainder,
    ):
        super().__init__(parent)
        self._size = global_batch_size
        self._shard = shard_options
        self._remainder = remainder

    def make_iterator(self, parents: Sequence[DatasetIterator[Any]]) -> DatasetIterator[Share]:
        return GlobalStepsDatasetIterator(parents[0], self)

    def __str__(self) -> str:
        return (
            f"GlobalStepsIterDataset(global_batch_size={self._size}, "
            f"shard_index={self._shard.shard_index}, shard_count={self._shard.shard_count})"
        )

    def known_length(self) -> int | None:
        length = self._parent.known_length()
        if length is None:
            return None
        return global_steps(length, self._size, self._remainder.keeps_rest)

    def fingerprint_arguments(self) -> dict[str, Any]:
        return {"global_batch_size": self._size, "remainder": self._remainder}


class GlobalStepsDatasetIterator(ChunkIterator[Share]):
    """Reads the stream step by step; a state always lies between two steps.

    An element that fails is gone for all hosts alike. What was read of a step before it is kept, and
    the step is filled with the elements behind it.
    """

    def __init__(self, parent: DatasetIterator[Any], dataset: GlobalStepsIterDataset):
        super().__init__(parent)
        self._dataset = dataset
        self._begin(0)

    def __str__(self) -> str:
        return f"GlobalStepsDatasetIterator(global_batch_size={self._dataset._size})"

    def _begin(self, position: int) -> None:
        """Starts a step at a place of the stream, at which the parent stands."""
        self._position = position
        self._mark: Callable[[], Any] = constant(self._parent.get_state())
        # The parent's state after what it gave last, where it need not be asked for it.
        self._behind: Callable[[], Any] | None = self._mark
        self._clear()

    def _clear(self) -> None:
        self._seen = 0  # How many elements of the current step were read,
        self._own: list[Any] = []  # those of them that are this host's,
        self._sample: Any = None  # and one of them, to show what an empty share would hold.

    def _pull(self, limit: int) -> Chunk:
        size = self._dataset._size
        while True:
            chunk = self._parent.next_chunk(max(1, limit) * size - self._seen)
            if not chunk.elements:
                return self._last_step()
            shares: list[Share] = []
            marks: list[Callable[[], Any]] = []
            begin, elements = 0, chunk.elements
            while (end := begin + size - self._seen) <= len(elements):
                self._take(elements[begin:end])
                shares.append(Share(self._own, len(self._own)))
                marks.append(_state_at(chunk, end - 1))
                self._clear()
                begin = end
            if begin < len(elements):
                self._take(elements[begin:])
            self._behind = None if chunk.live else _state_at(chunk, len(elements) - 1)
            if shares:
                first = self._position + size
                self._position, self._mark = self._position + len(shares) * size, marks[-1]
                return Chunk(shares, _states(first, size, marks))

    def _take(self, elements: list[Any]) -> None:
        """Keeps what is this host's of the next elements of a step."""
        shard = self._dataset._shard
        if not self._seen:
            self._sample = elements[0]
        share = global_share(self._seen, len(elements), shard.shard_index, shard.shard_count)
        self._own += elements[share]
        self._seen += len(elements)

    def _last_step(self) -> Chunk:
        """What this host gets of a last step that is not full."""
        if not self._seen or not self._dataset._remainder.keeps_rest:
            return END
        total = self._position + self._seen
        if self._dataset._remainder is Remainder.WRAP:
            self._take(self._first_again(self._dataset._size - self._seen, total))
        share = Share(self._own or [self._sample], len(self._own))
        behind = self._behind or self._parent.get_state
        self._position, self._mark = total, constant(behind())
        state = self._live_state()
        self._clear()
        return Chunk([share], lambda _: state)

    def _first_again(self, count: int, total: int) -> list[Any]:
        """The first `count` elements of a stream of `total`, from its beginning again if need be."""
        with self._dataset._parent.__iter__() as again:
            first = list(itertools.islice(again, min(count, total)))
        if not first:
            raise ValueError(
                f"{self._dataset._parent} gave {total} elements and gives none when it is read again, "
                'so its last batch cannot be filled from its beginning. Use remainder="pad".'
            )
        return list(itertools.islice(itertools.cycle(first), count))

    def _live_state(self) -> Any:
        return _state(self._position, self._mark())

    def _restore(self, state: Any) -> None:
        position = checked_int(
            "global_next_index", state_field(state, "global_next_index", self), least=0
        )
        if "stream" not in state:
            raise ValueError(
                f"The state {state!r} is that of a dataset without a filter, which is found again by "
                f"its index; {self._dataset._parent} is read in order, and needs a state with the "
                "field 'stream' too. Restore it into the pipeline that it was saved with."
            )
        self._parent.set_state(state["stream"])
        self._begin(position)


def _state(position: int, stream: Any) -> dict[str, Any]:
    return {"global_next_index": position, "stream": stream}


def _states(first: int, size: int, marks: list[Callable[[], Any]]) -> Callable[[int], Any]:
    return lambda place: _state(first + place * size, marks[place]())


def _state_at(chunk: Chunk, place: int) -> Callable[[], Any]:
    """How to find the state at a place of a chunk later, without holding its elements."""
    state_after = chunk.state_after
    return constant(state_after(place)) if chunk.live else lambda: state_after(place)
