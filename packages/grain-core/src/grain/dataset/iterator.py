"""Iterators over datasets: the class that users extend, and the chunk-wise one that operations extend."""

from __future__ import annotations

import abc
import contextlib
import copy
import functools
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from operator import length_hint
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Self, TypeVar

from grain import tree
from grain._chunk_size import ChunkSizeController
from grain._exceptions import loses_other_elements
from grain._policy import current_policy
from grain._user_code import calls_user_code
from grain.dataset.checkpointing import CheckpointMixin
from grain.dataset.chunk import END, Chunk
from grain.dataset.context import IterationContext, current_context
from grain.dataset.entry_points import observation
from grain.dataset.same_epoch import note_complete_pass, warn_of_repetition
from grain.dataset.stats import NO_STATS
from grain.dataset.traceback_cleanup import clear_frames
from grain.dataset.traceback_filter import filter_traceback
from grain.memory.buffer_pool import keep_freed_memory

if TYPE_CHECKING:
    from grain.observe.statistics import PipelineStatistics

T = TypeVar("T")

# What a replay may have to read again, at most.
_ANCHOR_SECONDS = 0.01


class DatasetIterator(CheckpointMixin, Iterator[T], abc.ABC):
    """An iterator whose position can be saved and restored.

    A subclass writes `__next__`, `get_state` and `set_state`, and passes the iterators it reads from
    to `__init__`.
    """

    # Class attributes, so that subclasses may define no `__init__` or not call this one.
    _parents: tuple[DatasetIterator[Any], ...] = ()
    _closed: bool = False
    _made_in: IterationContext | None = None
    _stats = NO_STATS  # Used in classes of users.

    def __init__(self, parents: DatasetIterator[Any] | Sequence[DatasetIterator[Any]] = ()):
        if (
            type(parents) is tuple
        ):  # First, as the checks below cost a third of opening an iterator.
            self._parents = parents
        elif isinstance(parents, DatasetIterator):
            self._parents = (parents,)
        elif isinstance(parents, Iterator):
            raise TypeError(
                f"{type(self).__name__} reads from a grain.DatasetIterator, got a "
                f"{type(parents).__name__}, which has no state. Let `__iter__` of your IterDataset "
                "return an object of a class that extends grain.DatasetIterator, with `__next__`, "
                "`get_state` and `set_state`."
            )
        else:
            self._parents = tuple(parents)
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
        """Return the next element."""

    @abc.abstractmethod
    def get_state(self) -> Any:
        """Return the position, as a value for `set_state` of an equal iterator."""

    @abc.abstractmethod
    def set_state(self, state: Any) -> None:
        """Restore a position that `get_state` returned."""

    def restore_as_parent(self, state: Any) -> None:
        """Restore a position for the iterator that reads from this one.

        An interrupt leaves this iterator anywhere: the reading one restores both to the state before.
        """
        self.set_state(state)

    def state_function(self) -> Callable[[], Any] | None:
        """Return a function of the current state that stays valid when the iterator advances.

        None where the state is unknown.
        """
        with contextlib.suppress(Exception):  # A user's iterator may have no state yet.
            state = copied_state(self.get_state())
            return lambda: state
        return None

    def index_from_state(self, state: Any) -> int:
        """Return which element comes next in `state`, where that is a matter of arithmetic."""
        del state
        raise _no_index("get_next_index", self)

    def state_from_index(self, index: int) -> Any:
        """Return the state in which the element at `index` comes next."""
        del index
        raise _no_index("set_next_index", self)

    def start_prefetch(self) -> None:
        """Start computing ahead, before the first element is requested."""
        for parent in self._parents:
            parent.start_prefetch()

    def stats(self) -> PipelineStatistics:
        """Return the measurements of this iterator so far, if it is observed.

        It is if it was made inside of `with grain.observing():`, if its dataset has `observe()`, or with
        `GRAIN_OBSERVE=1` in the environment.

        >>> import grain
        >>> with grain.observing():
        ...     iterator = iter(grain.MapDataset.range(5))
        >>> next(iterator), iterator.stats().elements
        (0, 1)
        """
        found: PipelineStatistics = observation().statistics(self)
        return found

    def close(self) -> None:
        """Release threads, processes and memory. A closed iterator cannot be advanced."""
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
            # Message kept from google/grain 0.2.18
            raise ValueError(f"Trying to advance a closed iterator: '{self}'.")

    @calls_user_code
    def next_chunk(self, limit: int) -> Chunk:
        """Return the next elements, about `limit` at most; an empty chunk at the end.

        This default serves iterators that users write: it returns one element, whose state is
        requested from the iterator itself.
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


class _Anchor:
    """A state of an iterator with live states, and the number of elements that were read since."""

    __slots__ = ("count", "expires", "state")

    def __init__(self, state: Any, expires: float):
        self.state = state
        self.expires = expires
        self.count = 0


class ChunkIterator(DatasetIterator[T], Generic[T]):
    """An iterator written in chunks.

    A subclass writes three methods: `_pull(limit)` makes the next chunk, `_live_state()` returns the
    state after everything that was pulled, and `_restore(state)` sets a state. This class steps through
    a chunk and finds the state at each step.

    An interrupt (Ctrl-C) may strike anywhere in these methods, and a state may be refused after some
    of the parents were set to it. In both cases the next step first restores the state before, so
    subclasses need not handle that.

    Attributes:
        repeats_pass: Whether the first element starts a pass that the program has seen before.
    """

    repeats_pass = False

    def __init__(self, parents: DatasetIterator[Any] | Sequence[DatasetIterator[Any]] = ()):
        super().__init__(parents)
        keep_freed_memory()
        self._chunk = END
        self._remaining: Iterator[Any] = iter(END.elements)
        # Made at the first step: iterators below others only see `next_chunk`.
        self._chunk_size: ChunkSizeController | None = None
        self._error: Exception | None = None
        # Set while a chunk is pulled or a state is set, and after that was interrupted: the state before.
        self._rollback: Callable[[], Any] | None = None
        # The state before the chunk, or the arguments of the replay that finds it, for an interrupt before
        # its first element is taken.
        self._before_chunk: Callable[[], Any] | tuple[Any, int] | None = None
        # Set after a failure that took other elements along, of workers or below a batch: the state of the
        # last element.
        self._before_failure: Callable[[], Any] | None = None
        self._anchor: _Anchor | None = None
        # Held while `next` pulls a chunk; reentrant, as a user's function may call `next` again.
        self._pulling = threading.RLock()

    @abc.abstractmethod
    def _pull(self, limit: int) -> Chunk:
        """Make the next chunk of about `limit` elements."""

    @abc.abstractmethod
    def _live_state(self) -> Any:
        """Return the state after everything that was pulled."""

    @abc.abstractmethod
    def _restore(self, state: Any) -> None:
        """Set the state."""

    def __next__(self) -> T:
        element: T
        for element in self._remaining:
            return element
        try:
            return self._advance()
        except StopIteration:
            raise
        except BaseException as error:
            clear_frames(error)
            filter_traceback(error)
            raise
        finally:
            # The error keeps this frame alive, which must not keep the iterator's resources alive.
            del self

    def _advance(self) -> T:
        """Return the next element, from a new chunk; threads that share an iterator take turns."""
        while True:
            with self._pulling:
                # Another thread may have pulled a chunk in the meantime.
                if not length_hint(self._remaining):
                    self._start_chunk()
            # Not with the lock held: an interrupt at its release would lose the element.
            element: T
            for element in self._remaining:
                return element

    def _start_chunk(self) -> None:
        """Pull a chunk; raise StopIteration at the end."""
        self._assert_not_closed()
        if self.repeats_pass:
            self.repeats_pass = False
            warn_of_repetition()
        replay: tuple[Any, int] | None = None
        if self._rollback is not None:
            self._restore(self._rollback())
        elif not self._chunk.elements:
            self._rollback = self.state_function()
        elif self._chunk.live:
            # Replaying moves the parents.
            replay = self._replay_arguments()
            self._rollback = functools.partial(self._replay, *replay)
        else:
            self._rollback = self._chunk.snapshot(len(self._chunk.elements) - 1)
        self._chunk = END
        if self._chunk_size is None:
            policy = current_policy()
            self._chunk_size = ChunkSizeController(
                policy.chunk_seconds, policy.max_chunk, policy.chunk_bytes, tree.nbytes
            )
        started = time.perf_counter()
        try:
            chunk = self._pull_or_raise(self._chunk_size.size)
        except Exception as error:
            if loses_other_elements(error) and self._before_failure is None:
                self._before_failure = self._rollback
                if replay is not None:
                    self._before_failure = functools.partial(self._state_before, *replay)
            self._rollback = self._anchor = None
            raise
        self._chunk_size.observe(chunk.elements, time.perf_counter() - started)
        remaining, before = iter(chunk.elements), replay or self._rollback
        # No call in between, so that an interrupt comes before or after all of them.
        self._chunk, self._remaining, self._rollback = chunk, remaining, None
        self._before_chunk, self._before_failure = before, None
        if not chunk.elements:
            if self._made_by is not None:
                note_complete_pass(self._made_by)
            raise StopIteration

    def state_function(self) -> Callable[[], Any] | None:
        self._return_untaken()
        if self._rollback is not None:
            return self._rollback
        chunk = self._chunk
        try:
            if not chunk.elements:
                return self._live_state_function()
            if not chunk.live:
                return chunk.snapshot(self._taken() - 1)
            state = copied_state(chunk.state_after(self._taken() - 1))
        except Exception:  # A user's iterator may have no state yet.
            return None
        return lambda: state

    def _live_state_function(self) -> Callable[[], Any]:
        """Return a function of `_live_state` that stays valid, and does not hold the iterator.

        A subclass whose state is made of values it keeps need not make the state for it.
        """
        state = copied_state(self._live_state())
        return lambda: state

    def _replay_arguments(self) -> tuple[Any, int]:
        """Return the arguments of a replay up to the next pull, for a chunk whose states are live.

        The states of a user's iterator are gone once it is advanced, and taking one for each element
        would be slow. So one is taken now and then, and a replay reads again from there. It moves the
        parents, and happens only after an interrupt.
        """
        now = time.perf_counter()
        anchor = self._anchor
        if anchor is None or now > anchor.expires:
            state = copied_state(self._chunk.state_after(len(self._chunk.elements) - 1))
            anchor = self._anchor = _Anchor(state, now + _ANCHOR_SECONDS)
        else:
            anchor.count += len(self._chunk.elements)
        return anchor.state, anchor.count

    def _replay(self, state: Any, count: int) -> Any:
        state = self._state_after_reading(state, count)
        self._rollback = lambda: state
        return state

    def _state_before(self, state: Any, count: int) -> Any:
        """Return the state before a failure by a replay, and return to the position after the failure."""
        after = copied_state(self._current_state())
        self._rollback = lambda: after
        before = self._state_after_reading(state, count)
        self._restore(after)
        self._rollback, self._before_failure = None, lambda: before
        return before

    def _state_after_reading(self, state: Any, count: int) -> Any:
        self._anchor = None
        self._restore(state)
        while count > 0:
            chunk = self._pull_or_raise(1)
            if not chunk.elements:
                break
            count -= len(chunk.elements)
            state = chunk.state_after(len(chunk.elements) - 1)
        return copied_state(state)

    def next_chunk(self, limit: int) -> Chunk:
        if self._rollback is not None:
            self._assert_not_closed()
            self._restore(self._rollback())
            self._rollback = None
        elif self._chunk.elements:
            chunk = self._chunk.rest(self._taken())
            self._chunk, self._remaining = END, iter(END.elements)
            if chunk.elements:
                return chunk
        self._before_failure = self._anchor = None
        self._assert_not_closed()
        return self._pull_or_raise(limit)

    def _pull_or_raise(self, limit: int) -> Chunk:
        """Pull a chunk, or raise the error that ended the last one."""
        if self._error is not None:
            error, self._error = self._error, None
            raise error
        return self._pull(limit)

    def _fail_after(self, error: Exception, chunk: Chunk) -> Chunk:
        """Return the elements before an error, and raise the error at the next pull."""
        if not chunk.elements:
            raise error
        self._error = error
        return chunk

    def _taken(self) -> int:
        return len(self._chunk.elements) - length_hint(self._remaining)

    def get_state(self) -> Any:
        if self._before_failure is not None:
            return self._before_failure()
        return self._current_state()

    def _current_state(self) -> Any:
        """Return the state from which `next` continues."""
        self._return_untaken()
        if self._rollback is not None:
            return self._rollback()
        if self._chunk.elements:
            return self._chunk.state_after(self._taken() - 1)
        return self._live_state()

    def _return_untaken(self) -> None:
        """Roll back a chunk of which no element was taken, as after an interrupt: it is pulled again."""
        if self._rollback is None and self._chunk.elements and not self._taken():
            before, remaining = self._before_chunk, iter(END.elements)
            if isinstance(before, tuple):
                before = functools.partial(self._replay, *before)
            self._rollback, self._chunk, self._remaining = before, END, remaining

    def set_state(self, state: Any) -> None:
        before, remaining = self.state_function(), iter(END.elements)
        # No call in between: an interrupt leaves the old position or the rollback to it.
        self._rollback, self._chunk, self._remaining = before, END, remaining
        self._error = self._before_failure = self._anchor = None
        self._restore(state)
        self._rollback = None
        self.repeats_pass = False

    def restore_as_parent(self, state: Any) -> None:
        if type(self).set_state is not ChunkIterator.set_state:
            self.set_state(state)
            return
        self._rollback, self._chunk, self._remaining = None, END, iter(END.elements)
        self._error = self._before_failure = self._anchor = None
        self.repeats_pass = False
        self._restore(state)

    def close(self) -> None:
        self._keep_state()
        super().close()

    def _keep_state(self) -> None:
        """Make `get_state` independent of the parents, which cannot be read once they are closed."""
        self._return_untaken()
        if self._rollback is not None and not self._closed:
            with contextlib.suppress(Exception):
                state = self._rollback()
                self._rollback = lambda: state
        # Elements that were taken stay countable for `get_state`; the others are discarded.
        if self._chunk.elements:
            taken = self._taken()
            self._chunk = self._chunk.first(taken)
            self._remaining = iter(END.elements)


def captured_state(iterator: DatasetIterator[Any]) -> Callable[[], Any]:
    """Return a function of an iterator's current state; raise the error of one that has none."""
    found = iterator.state_function()
    if found is not None:
        return found
    state = iterator.get_state()
    return lambda: state


def state_field(state: Any, name: str, owner: Any) -> Any:
    """Return a field of a state, or raise an error that shows the state."""
    try:
        return state[name]
    except (KeyError, TypeError, IndexError) as error:
        raise type(error)(
            f"The state for {owner} must be a mapping with the field {name!r}, as `get_state()` "
            f"returns it; got {state!r}."
        ) from None


def count_field(state: Any, name: str, owner: Any, most: int | None = None) -> int:
    """Return a field of a state that counts something, or raise an error that shows the state."""
    count = int(state_field(state, name, owner))
    if count < 0 or (most is not None and count > most):
        raise ValueError(
            f"The field {name!r} of the state for {owner} must be "
            f"{'at least 0' if most is None else f'in 0..{most}'}, as `get_state()` returns it; got "
            f"{count}."
        )
    return count


_PLAIN_VALUES = frozenset((int, str, bool, float, bytes, type(None)))
# States are seldom nested deeper; beyond it they may even contain themselves.
_PLAIN_DEPTH = 8


def copied_state(state: Any, depth: int = 0) -> Any:
    """Return a deep copy of a state; those of plain JSON, which most are, are copied quickly.

    >>> state = {"parent": {"next_index": 3}, "sizes": [1, 2]}
    >>> copied_state(state) == state, copied_state(state)["sizes"] is state["sizes"]
    (True, False)
    """
    kind = type(state)
    if kind in _PLAIN_VALUES:
        return state
    if depth < _PLAIN_DEPTH:
        if kind is dict:
            return {
                key: value if type(value) in _PLAIN_VALUES else copied_state(value, depth + 1)
                for key, value in state.items()
            }
        if kind is list:
            return [copied_state(value, depth + 1) for value in state]
    return copy.deepcopy(state)


def same_state(one: Any, other: Any) -> bool:
    """Return whether two states are certainly equal."""
    try:
        return bool(one == other)
    except Exception:  # Arrays in a user's state, for example.
        return False


class Transformed(NamedTuple):
    """The result of `_transform` for a chunk."""

    elements: list[Any]
    offsets: list[int] | None
    """The offset in the chunk that each element comes from; None when element i comes from offset i."""
    processed: int
    """Number of elements of the chunk that were processed before the error, if there is one."""
    error: Exception | None


class ElementwiseIterator(ChunkIterator[T]):
    """An iterator that makes each of its elements of one element of its parent, or drops it.

    A subclass writes `_transform`. An element that fails is lost, as in any Python iterator: the
    elements before it are returned first, then the error is raised, then the stream resumes after it.
    """

    def __init__(self, parent: DatasetIterator[Any]):
        super().__init__(parent)
        self._held = END
        # The parent's state after the element that failed last.
        self._failed: Callable[[], Any] | None = None

    @abc.abstractmethod
    def _transform(self, elements: list[Any]) -> Transformed:
        """Transform the elements of a chunk."""

    def _wrap(self, chunk: Chunk, processed: int) -> Chunk:
        """Add this iterator's own state, if it has one, to the states of a chunk it made."""
        del processed
        return chunk

    def _own_state(self, parent_state: Any) -> Any:
        return parent_state

    def _next_input(self, limit: int) -> Chunk:
        """Return the next chunk of the parent."""
        return self._parent.next_chunk(limit)

    def _pull(self, limit: int) -> Chunk:
        self._failed = None
        while True:
            chunk, self._held = self._held, END
            if not chunk.elements:
                chunk = self._next_input(limit)
            if not chunk.elements:
                return END
            try:
                result = self._transform(chunk.elements)
            except BaseException:
                # After an interrupt the elements are transformed again.
                self._held = chunk
                raise
            made = (
                Chunk(result.elements, chunk.state_after, chunk.live)
                if result.offsets is None
                else chunk.pick(result.elements, result.offsets)
            )
            made = self._wrap(made, result.processed)
            if result.error is not None:
                failed = result.processed
                self._held = chunk.rest(failed + 1)
                self._failed = chunk.snapshot(failed)
                return self._fail_after(result.error, made)
            if made.elements:
                return made

    def _live_state(self) -> Any:
        if self._failed is not None:
            return self._own_state(self._failed())
        return self._own_state(self._parent.get_state())

    def _restore(self, state: Any) -> None:
        self._held, self._failed = END, None
        self._parent.restore_as_parent(state)
