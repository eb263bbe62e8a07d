"""One host's share of each global step of a stream that all hosts read."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

from grain.dataset.chunk import END, Chunk
from grain.dataset.iter_dataset import IterDataset
from grain.dataset.iterator import ChunkIterator, DatasetIterator, state_field
from grain.dataset.parent_cursor import constant
from grain.dataset.shard_batches import Remainder, Share
from grain.index.even_split import global_share, global_steps
from grain.options import checked_int
from grain.sharding import ShardOptions


class GlobalStepsIterDataset(IterDataset[Share]):
    """One host's elements of each global batch.

    Every host reads the whole stream and keeps its share. The state is a position in that stream: it is
    the same on all hosts, and does not depend on their number.

    Args:
        parent: The whole stream, the same on all hosts.
        global_batch_size: Number of elements that all hosts take together in a step.
        shard_options: Which host this is.
        remainder: The handling of elements at the end that do not fill a global batch.
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
        return GlobalStepsDatasetIterator(
            parents[0], self._parent, self._size, self._shard, self._remainder
        )

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
    """An iterator over global steps; a state always lies between two steps.

    An element that fails is lost on all hosts. The elements of the step before it are kept, and the
    step is filled with the elements after it.
    """

    def __init__(
        self,
        parent: DatasetIterator[Any],
        stream: IterDataset[Any],
        size: int,
        shard: ShardOptions,
        remainder: Remainder,
    ):
        super().__init__(parent)
        self._stream = stream
        self._size = size
        self._shard = shard
        self._remainder = remainder
        self._begin(0)

    def __str__(self) -> str:
        return f"GlobalStepsDatasetIterator(global_batch_size={self._size})"

    def _begin(self, position: int) -> None:
        """Start a step at a position of the stream, which is the parent's position."""
        self._position = position
        self._mark: Callable[[], Any] = constant(self._parent.get_state())
        # The parent's state after its last chunk; None where only the parent has it.
        self._after_chunk: Callable[[], Any] | None = self._mark
        self._clear()

    def _clear(self) -> None:
        self._seen = 0  # Elements of the current step that were read,
        self._own: list[Any] = []  # those of them that are this host's,
        self._sample: Any = None  # and one of them, as the sample of an empty share.

    def _pull(self, limit: int) -> Chunk:
        size = self._size
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
            self._after_chunk = None if chunk.live else _state_at(chunk, len(elements) - 1)
            if shares:
                first = self._position + size
                self._position, self._mark = self._position + len(shares) * size, marks[-1]
                return Chunk(shares, _states(first, size, marks))

    def _take(self, elements: list[Any]) -> None:
        """Keep this host's share of the next elements of a step."""
        shard = self._shard
        if not self._seen:
            self._sample = elements[0]
        share = global_share(self._seen, len(elements), shard.shard_index, shard.shard_count)
        self._own += elements[share]
        self._seen += len(elements)

    def _last_step(self) -> Chunk:
        """Return this host's share of a last step that is not full."""
        if not self._seen or not self._remainder.keeps_rest:
            return END
        total = self._position + self._seen
        if self._remainder is Remainder.WRAP:
            self._take(self._first_again(self._size - self._seen, total))
        share = Share(self._own or [self._sample], len(self._own))
        after = self._after_chunk or self._parent.get_state
        self._position, self._mark = total, constant(after())
        state = self._live_state()
        self._clear()
        return Chunk([share], lambda _: state)

    def _first_again(self, count: int, total: int) -> list[Any]:
        """Return the first `count` elements of a stream of `total`, repeated if necessary."""
        with self._stream.__iter__() as again:
            first = list(itertools.islice(again, min(count, total)))
        if not first:
            raise ValueError(
                f"{self._stream} yielded {total} elements and yields none when it is read again, so its "
                'last batch cannot be filled from its start. Use remainder="pad".'
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
                f"The state {state!r} belongs to a dataset without a filter, which is read by "
                f"index; {self._stream} is read in order, and needs a state with the "
                "field 'stream' too. Restore it into the pipeline that saved it."
            )
        self._parent.set_state(state["stream"])
        self._begin(position)


def _state(position: int, stream: Any) -> dict[str, Any]:
    return {"global_next_index": position, "stream": stream}


def _states(first: int, size: int, marks: list[Callable[[], Any]]) -> Callable[[int], Any]:
    return lambda offset: _state(first + offset * size, marks[offset]())


def _state_at(chunk: Chunk, offset: int) -> Callable[[], Any]:
    """Return a function of the state at an offset of a chunk, which does not hold its elements."""
    state_after = chunk.state_after
    return constant(state_after(offset)) if chunk.live else lambda: state_after(offset)
