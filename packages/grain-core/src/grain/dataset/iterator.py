"""Iterators over datasets: the class that users extend, and the one the operations here are written on."""

from __future__ import annotations

import abc
import contextlib
import copy
import time
from collections.abc import Callable, Iterator, Sequence
from operator import length_hint
from types import TracebackType
from typing import Any, Generic, NamedTuple, Self, TypeVar

from grain import tree
from grain.dataset.checkpointing import CheckpointMixin
from grain.dataset.chunk import END, Chunk
from grain.dataset.context import IterationContext, current_context
from grain.dataset.traceback_cleanup import clear_frames
from grain.memory.buffer_pool import keep_freed_memory

T = TypeVar("T")

# A chunk should take about this long to make: long enough to hide its overhead, short enough not to be
# felt by the consumer, and short enough to bound what it holds.
_CHUNK_SECONDS = 0.001
_MAX_CHUNK = 1024
# And while several elements fit into this: of large ones, fewer are on the way and in the caches.
_CHUNK_BYTES = 4 << 20


class DatasetIterator(CheckpointMixin, Iterator[T], abc.ABC):
    """An iterator whose position can be saved and restored.

    A subclass writes `__next__`, `get_state` and `set_state`, and passes the iterators it reads from
    to `__init__`.
    """

    # Class attributes, so that subclasses may define no `__init__` or not call this one.
    _parents: tuple[DatasetIterator[Any], ...] = ()
    _closed: bool = False
    _made_in: IterationContext | None = None

    def __init__(self, parents: DatasetIterator[Any] | Sequence[DatasetIterator[Any]] = ()):
        if isinstance(parents, Iterator) and not isinstance(parents, DatasetIterator):
            raise TypeError(
                f"{type(self).__name__} reads from a grain.DatasetIterator, got a "
                f"{type(parents).__name__}, which has no position that could be saved. Let "
                "`__iter__` of your IterDataset return an object of a class that extends "
                "grain.DatasetIterator, with `__next__`, `get_state` and `set_state`."
            )
        self._parents = (parents,) if isinstance(parents, DatasetIterator) else tuple(parents)
        self._made_in = current_context()

    @property
    def parents(self) -> tuple[DatasetIterator[Any], ...]:
        """The iterators this one reads from."""
        return self._parents

    @property
    def _parent(self) -> DatasetIterator[Any]:
        if len(self._parents) != 1:
            raise ValueError(
                f"{type(self).__name__} has {len(self._parents)} parents; `_parent` needs one."
            )
        return self._parents[0]

    @property
    def _context(self) -> IterationContext:
        return self._made_in or IterationContext()

    def __iter__(self) -> Self:
        return self

    @abc.abstractmethod
    def __next__(self) -> T:
        """The next element."""

    @abc.abstractmethod
    def get_state(self) -> Any:
        """The position, as a value that `set_state` of an equal iterator understands."""

    @abc.abstractmethod
    def set_state(self, state: Any) -> None:
        """Goes to a position that `get_state` returned."""

    def index_from_state(self, state: Any) -> int:
        """Return which element comes next in `state`, where that is a matter of arithmetic."""
        del state
        raise _no_index("get_next_index", self)

    def state_from_index(self, index: int) -> Any:
        """Return the state in which the element at `index` comes next."""
        del index
        raise _no_index("set_next_index", self)

    def start_prefetch(self) -> None:
        """Begins to compute ahead, before the first element is asked for."""
        for parent in self._parents:
            parent.start_prefetch()

    def close(self) -> None:
        """Gives back threads, processes and memory. A closed iterator cannot be advanced."""
        self._closed = True
        for parent in self._parents:
            parent.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _assert_not_closed(self) -> None:
        if self._closed:
            raise ValueError(f"Trying to advance a closed iterator: '{self}'.")

    def next_chunk(self, limit: int) -> Chunk:
        """The next elements, about `limit` at most; an empty chunk at the end.

        This form serves iterators that users write: one element, whose state is asked of the
        iterator itself.
        """
        del limit
        try:
            element = next(self)
        except StopIteration:
            return END
        return Chunk([element], lambda _: self.get_state(), live=True)


def _no_index(function: str, iterator: Any) -> NotImplementedError:
    return NotImplementedError(
        f"{function} is not supported for {type(iterator).__name__}: how many elements it makes of "
        "its parent's is known only by reading them. Use `get_state` and `set_state` instead."
    )


class ChunkIterator(DatasetIterator[T], Generic[T]):
    """An iterator written in chunks.

    A subclass writes three things: `_pull(limit)` makes the next chunk, `_live_state()` is the state
    after everything that was pulled, and `_restore(state)` goes to a state. Stepping through a chunk
    and the state at each step are done here.

    An interrupt (Ctrl-C) may strike anywhere in the operations below, and a state may be refused when
    some of them have gone there already. In both cases the next step begins with going back to the
    state before, so operations need not think of that.
    """

    def __init__(self, parents: DatasetIterator[Any] | Sequence[DatasetIterator[Any]] = ()):
        super().__init__(parents)
        keep_freed_memory()
        self._chunk = END
        self._rest: Iterator[Any] = iter(END.elements)
        self._chunk_size = 1
        self._error: Exception | None = None
        # While a chunk is pulled or a state set, and after that was cut short: finds the state before.
        self._back: Callable[[], Any] | None = None

    @abc.abstractmethod
    def _pull(self, limit: int) -> Chunk:
        """Makes the next chunk of about `limit` elements."""

    @abc.abstractmethod
    def _live_state(self) -> Any:
        """The state after everything that was pulled."""

    @abc.abstractmethod
    def _restore(self, state: Any) -> None:
        """Goes to `state`."""

    def __next__(self) -> T:
        element: T
        for element in self._rest:
            return element
        try:
            return self._advance()
        except StopIteration:
            raise
        except BaseException as error:
            clear_frames(error)
            raise
        finally:
            # Who holds the error holds this frame, but shall not hold what the iterator has.
            del self

    def _advance(self) -> T:
        """Pulls a chunk that takes about `_CHUNK_SECONDS` and gives its first element."""
        self._assert_not_closed()
        if self._back is not None:
            self._restore(self._back())
        elif not self._chunk.elements:
            self._back = self._here()
        elif not self._chunk.live:
            self._back = self._chunk.snapshot(len(self._chunk.elements) - 1)
        self._chunk = END
        started = time.perf_counter()
        try:
            chunk = self._pull_or_raise(self._chunk_size)
        except Exception:
            self._back = None
            raise
        taken = time.perf_counter() - started
        if taken > 4 * _CHUNK_SECONDS:
            self._chunk_size = max(1, self._chunk_size // 2)
        elif (
            taken < _CHUNK_SECONDS
            and len(chunk.elements) >= self._chunk_size < _MAX_CHUNK
            and 2 * self._chunk_size * tree.nbytes(chunk.elements[-1]) <= _CHUNK_BYTES
        ):
            self._chunk_size *= 2
        rest = iter(chunk.elements)
        # No call in between, so that an interrupt comes before or after all three.
        self._chunk, self._rest, self._back = chunk, rest, None
        element: T
        for element in rest:
            return element
        raise StopIteration

    def _here(self) -> Callable[[], Any] | None:
        """How to come back to where the iterator stands, wherever it goes; None if nobody knows."""
        if self._back is not None:
            return self._back
        with contextlib.suppress(Exception):  # A user's iterator may have no state yet.
            state = copy.deepcopy(self.get_state())
            return lambda: state
        return None

    def next_chunk(self, limit: int) -> Chunk:
        if self._back is not None:
            self._assert_not_closed()
            self._restore(self._back())
            self._back = None
        elif self._chunk.elements:
            chunk = self._chunk.rest(self._taken())
            self._chunk, self._rest = END, iter(END.elements)
            if chunk.elements:
                return chunk
        self._assert_not_closed()
        return self._pull_or_raise(limit)

    def _pull_or_raise(self, limit: int) -> Chunk:
        """Pulls a chunk, or raises the error that cut the last one short."""
        if self._error is not None:
            error, self._error = self._error, None
            raise error
        return self._pull(limit)

    def _fail_after(self, error: Exception, chunk: Chunk) -> Chunk:
        """Gives the elements before an error first, and raises it when the next ones are asked for."""
        if not chunk.elements:
            raise error
        self._error = error
        return chunk

    def _taken(self) -> int:
        return len(self._chunk.elements) - length_hint(self._rest)

    def get_state(self) -> Any:
        if self._back is not None:
            return self._back()
        if self._chunk.elements:
            return self._chunk.state_after(self._taken() - 1)
        return self._live_state()

    def set_state(self, state: Any) -> None:
        self._back = self._here()
        self._chunk, self._rest, self._error = END, iter(END.elements), None
        self._restore(state)
        self._back = None

    def close(self) -> None:
        # What was computed ahead stays countable for `get_state`, but cannot be taken any more.
        if self._chunk.elements:
            taken = self._taken()
            self._chunk = self._chunk.first(taken)
            self._rest = iter(END.elements)
        super().close()


def state_field(state: Any, name: str, owner: Any) -> Any:
    """Reads a field of a state, or raises an error that shows what was given."""
    try:
        return state[name]
    except (KeyError, TypeError, IndexError) as error:
        raise type(error)(
            f"The state for {owner} must be a mapping with the field {name!r}, as `get_state()` "
            f"returns it; got {state!r}."
        ) from None


def same_state(one: Any, other: Any) -> bool:
    """Whether two states are surely the same."""
    try:
        return bool(one == other)
    except Exception:  # Arrays of a user's own, say.
        return False


class Transformed(NamedTuple):
    """What `_transform` made of a chunk."""

    elements: list[Any]
    offsets: list[int] | None
    """The offset in the chunk that each element comes from; None when element i comes from offset i."""
    processed: int
    """How many elements of the chunk were processed before the error, if there is one."""
    error: Exception | None


class ElementwiseIterator(ChunkIterator[T]):
    """An iterator that makes each of its elements of one element of its parent, or drops it.

    A subclass writes `_transform`. An element that fails is gone, as in any Python iterator: the
    elements before it are given first, then the error is raised, then the stream goes on behind it.
    """

    def __init__(self, parent: DatasetIterator[Any]):
        super().__init__(parent)
        self._held = END
        # Finds the parent's state behind the element that failed last.
        self._failed: Callable[[], Any] | None = None

    @abc.abstractmethod
    def _transform(self, elements: list[Any]) -> Transformed:
        """Transforms the elements of a chunk."""

    def _wrap(self, chunk: Chunk, processed: int) -> Chunk:
        """Adds this iterator's own state to the states of a chunk it made; by default it has none."""
        del processed
        return chunk

    def _own_state(self, parent_state: Any) -> Any:
        return parent_state

    def _pull(self, limit: int) -> Chunk:
        self._failed = None
        while True:
            chunk, self._held = self._held, END
            if not chunk.elements:
                chunk = self._parent.next_chunk(limit)
            if not chunk.elements:
                return END
            try:
                result = self._transform(chunk.elements)
            except BaseException:
                # An interrupt is not the elements' fault: they are transformed again.
                self._held = chunk
                raise
            made = (
                Chunk(result.elements, chunk.state_after, chunk.live)
                if result.offsets is None
                else chunk.pick(result.elements, result.offsets)
            )
            made = self._wrap(made, result.processed)
            if result.error is not None:
                place = result.processed
                self._held = chunk.rest(place + 1)
                self._failed = chunk.snapshot(place)
                return self._fail_after(result.error, made)
            if made.elements:
                return made

    def _live_state(self) -> Any:
        if self._failed is not None:
            return self._own_state(self._failed())
        return self._own_state(self._parent.get_state())

    def _restore(self, state: Any) -> None:
        self._held, self._failed = END, None
        self._parent.set_state(state)
