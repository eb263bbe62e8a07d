"""How long the consumer waits in `next()`, and how long it is busy in between.

An iterator delivers the elements of a chunk without further work, so only the `next()` that starts a chunk
is timed, and the others are taken to cost what a `next()` without work costs on this machine.
"""

from __future__ import annotations

import functools
import random
import time
import warnings
from collections.abc import Callable
from operator import length_hint
from typing import Any, NamedTuple

from grain.dataset.chunk import Chunk
from grain.dataset.iterator import ChunkIterator
from grain.observe.instrumentation import override
from grain.observe.statistics import WaitStatistics

# The number of waits that are kept for percentiles.
_MOST_WAITS = 8192
# Waits are counted by powers of two of nanoseconds; the last count is that of more than half an hour.
_MOST_BITS = 42
_CALIBRATION_STEPS = 1024
_CALIBRATION_ROUNDS = 3


class ConsumerClock:
    """Waits of the consumer of one iterator; durations are nanoseconds.

    Args:
        clock: Returns the time in nanoseconds.
        step: The nanoseconds of a `next()` that takes an element of a chunk.

    Attributes:
        is_warming_up: Whether the next element is the first after a start or `set_state`.
    """

    def __init__(
        self, clock: Callable[[], int] = time.perf_counter_ns, step: int | None = None
    ) -> None:
        self._clock = clock
        self._step = next_cost() if step is None else step
        self.started = clock()
        self.first: int | None = None
        self.ended: int | None = None
        self.delivered = 0
        self.epochs = 0
        self.busy = 0
        self.waiting = 0
        self.longest = 0
        self.warm_ups = 0
        self.warm_up = 0
        # Elements that were taken of a chunk, without waiting for it.
        self.immediate = 0
        self._waits: list[int] = []
        self._by_bits = [0] * (_MOST_BITS + 1)
        self._count = 0
        self.is_warming_up = True
        self._entered = 0
        self._in_hand = 0
        self._random = random.Random(0)
        self._listeners: list[_Listener] = []

    def enter(self) -> None:
        """Note that the consumer calls `next()`."""
        now = self._entered = self._clock()
        if not self.is_warming_up:
            busy, steps, taken = self._between(now, 0)
            self.busy += busy
            self.waiting += steps
            self.immediate += taken
            self._in_hand = 0

    def _between(self, now: int, untaken: int) -> tuple[int, int, int]:
        """Return how long the consumer was busy since the chunk came, waited, and took further elements."""
        if self.ended is None:
            return 0, 0, 0
        taken = max(0, self._in_hand - untaken - 1)
        steps = min(taken * self._step, now - self.ended)
        return now - self.ended - steps, steps, taken

    def leave(self, count: int) -> None:
        """Note that `next()` returns the first of `count` elements; 0 for the end or an error."""
        self.ended = self._clock()
        wait = self.ended - self._entered
        self._in_hand = count
        self.delivered += count
        if not count:
            return
        self._by_bits[_bits(wait)] += 1
        if self.first is None:
            self.first = self.ended
        if self.is_warming_up:
            self.is_warming_up = False
            self.warm_ups += 1
            self.warm_up += wait
        else:
            self.waiting += wait
            self.longest = max(self.longest, wait)
            self._keep(wait)
        for listener in self._listeners:
            if listener.is_due(self.ended, self.delivered):
                self._call(listener)

    def restart(self, untaken: int) -> None:
        """Note that a state is set: `untaken` elements are discarded, and the next is a warm-up."""
        self.delivered -= untaken
        self._in_hand = 0
        self.is_warming_up = True

    def _keep(self, wait: int) -> None:
        self._count += 1
        if len(self._waits) < _MOST_WAITS:
            self._waits.append(wait)
        elif (place := self._random.randrange(self._count)) < _MOST_WAITS:
            self._waits[place] = wait

    def add_listener(
        self,
        callback: Callable[[], None],
        seconds: float | None,
        elements: int | None,
        at_end: bool = False,
    ) -> None:
        """Call a function in `next()`, at most once in so many seconds or elements, and at the end."""
        self._listeners.append(
            _Listener(callback, seconds, elements, at_end, self._clock(), self.delivered)
        )

    def finish(self) -> None:
        """Note that the end was reached."""
        self.leave(0)
        self.epochs += 1
        for listener in self._listeners:
            if listener.at_end:
                self._call(listener)

    def _call(self, listener: _Listener) -> None:
        try:
            listener.callback()
        except Exception as error:
            self._listeners = [other for other in self._listeners if other is not listener]
            warnings.warn(
                f"A listener of an observed pipeline raised {error!r} and is not called again.",
                RuntimeWarning,
                stacklevel=4,
            )

    def readings(self, untaken: int) -> ConsumerReadings:
        """Return the waits so far.

        Args:
            untaken: The number of elements of the last chunk that the consumer has not taken.
        """
        busy, steps, taken = 0, 0, 0
        ended = self.ended or self.started
        if untaken:  # In the middle of a chunk.
            now = self._clock()
            busy, steps, taken = self._between(now, untaken)
            ended = now
        first = ended if self.first is None else self.first
        return ConsumerReadings(
            wait=self._waits_so_far(self.immediate + taken, self.waiting + steps),
            busy_seconds=(self.busy + busy) / 1e9,
            setup_seconds=(first - self.started) / 1e9,
            elapsed_seconds=(ended - self.started) / 1e9,
            delivered=self.delivered - untaken,
            epochs=self.epochs,
        )

    def _waits_so_far(self, immediate: int, waiting: int) -> WaitStatistics:
        waits = sorted(self._waits)
        by_bits = [*self._by_bits]
        by_bits[_bits(self._step)] += immediate

        def percentile(share: float) -> float:
            # The waits for elements of a chunk in hand are the shortest.
            rank = share * (self._count + immediate) - immediate
            if not waits or rank <= 0:
                return self._step / 1e9 if immediate else 0.0
            place = min(len(waits) - 1, int(rank / self._count * len(waits)))
            return waits[place] / 1e9

        return WaitStatistics(
            count=self._count + immediate,
            total_seconds=waiting / 1e9,
            p50=percentile(0.5),
            p95=percentile(0.95),
            p99=percentile(0.99),
            longest=self.longest / 1e9,
            warm_up_count=self.warm_ups,
            warm_up_seconds=self.warm_up / 1e9,
            histogram=tuple(by_bits),
        )


def _bits(wait: int) -> int:
    """Return the least power of two that is not less than a number of nanoseconds."""
    return min(_MOST_BITS, max(0, wait - 1).bit_length())


class ConsumerReadings(NamedTuple):
    """What a consumer clock has measured."""

    wait: WaitStatistics
    busy_seconds: float
    setup_seconds: float
    elapsed_seconds: float
    delivered: int
    epochs: int


class _Listener:
    def __init__(
        self,
        callback: Callable[[], None],
        seconds: float | None,
        elements: int | None,
        at_end: bool,
        now: int,
        delivered: int,
    ):
        self.callback = callback
        self.at_end = at_end
        self._period = None if seconds is None else int(seconds * 1e9)
        self._elements = elements
        self._last = now, delivered

    def is_due(self, now: int, delivered: int) -> bool:
        """Return whether to call now; then the next period starts."""
        late = self._period is not None and now - self._last[0] >= self._period
        many = self._elements is not None and delivered - self._last[1] >= self._elements
        if late or many:
            self._last = now, delivered
        return late or many


def attach_clock(iterator: Any, clock: ConsumerClock, owner: Any) -> bool:
    """Time the `next()` calls of an iterator; return whether that is possible.

    Args:
        iterator: The iterator that the consumer holds.
        clock: Records the waits.
        owner: Kept as `_grain_pipeline` of the iterator.
    """
    kind: Any = type(iterator)
    attributes = {"_grain_clock": clock, "_grain_pipeline": owner}
    return override(iterator, _timed_members(kind), attributes)


@functools.lru_cache(maxsize=512)
def _timed_members(kind: Any) -> dict[str, Any]:
    members: dict[str, Any] = {"set_state": _restarting(kind.set_state)}
    if issubclass(kind, ChunkIterator):
        members["_start_chunk"] = _timed_chunk(kind._start_chunk)
    else:
        members["__next__"] = _timed_next(kind.__next__)
    return members


def _timed_chunk(method: Callable[[Any], None]) -> Callable[[Any], None]:
    def _start_chunk(self: Any) -> None:
        clock: ConsumerClock = self._grain_clock
        recorder = self._grain_pipeline.recorders.current()
        recorder.is_consumer = True
        recorder.reset()
        clock.enter()
        is_warm_up = clock.is_warming_up
        if is_warm_up:
            recorder.start_warm_up()
        try:
            method(self)
        except StopIteration:
            clock.finish()
            raise
        except BaseException:
            clock.leave(0)
            raise
        finally:
            if is_warm_up:
                recorder.end_warm_up()
        clock.leave(len(self._chunk.elements))

    return _start_chunk


def _timed_next(method: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def __next__(self: Any) -> Any:  # noqa: N807 - shown in tracebacks
        clock: ConsumerClock = self._grain_clock
        recorder = self._grain_pipeline.recorders.current()
        recorder.is_consumer = True
        recorder.reset()
        clock.enter()
        is_warm_up = clock.is_warming_up
        if is_warm_up:
            recorder.start_warm_up()
        try:
            element = method(self)
        except StopIteration:
            clock.finish()
            raise
        except BaseException:
            clock.leave(0)
            raise
        finally:
            if is_warm_up:
                recorder.end_warm_up()
        clock.leave(1)
        return element

    return __next__


def _restarting(method: Callable[[Any, Any], None]) -> Callable[[Any, Any], None]:
    @functools.wraps(method)
    def set_state(self: Any, state: Any) -> None:
        self._grain_clock.restart(untaken_elements(self))
        method(self, state)

    return set_state


def untaken_elements(iterator: Any) -> int:
    """Return the number of elements of the last chunk that the consumer has not taken."""
    return length_hint(getattr(iterator, "_remaining", ()))


class _Endless(ChunkIterator[None]):
    """Delivers chunks without computing anything."""

    def _pull(self, limit: int) -> Chunk:
        del limit
        return Chunk([None] * _CALIBRATION_STEPS, lambda offset: offset)

    def _live_state(self) -> Any:
        return 0

    def _restore(self, state: Any) -> None:
        del state


@functools.cache
def next_cost() -> int:
    """Return the nanoseconds of a `next()` that takes an element of a chunk, measured once."""
    found = []
    iterator = _Endless()
    for _ in range(_CALIBRATION_ROUNDS):
        next(iterator)
        started = time.perf_counter_ns()
        for _ in range(_CALIBRATION_STEPS - 1):
            next(iterator)
        found.append((time.perf_counter_ns() - started) // (_CALIBRATION_STEPS - 1))
    return min(found)
