"""The sequencer: computes an order-dependent stream once, and serves each host its share of every step.

One thread computes steps in order and keeps a window of them. A *place* is a pair of the step and of the
number of errors raised in it before; a host takes the entry at a place as often as it likes, so a lost reply
is simply asked for again. A request says which place the host needs first; it may ask for later ones too. An
entry is dropped when all hosts are past it, and no step is computed further ahead than the window allows, so
that hosts which run ahead wait for the slowest.

A place before the window, or any place after a restart, is reached from a state: that of a step which no
host has acknowledged as saved, or one that the host sends along. The computation is a function of the state,
so entries computed again are equal. This module is independent of Ray.
"""

from __future__ import annotations

import enum
import functools
import pickle
import threading
from typing import Any, NamedTuple

from grain.dataset.elastic.elastic_iterator import ElasticIterator
from grain.execution.processes import array_pickling
from grain.execution.processes.error_report import report
from grain_ray.payload import pack

Place = tuple[int, int]

# States kept for steps that no host has acknowledged; older ones are dropped.
_MAX_STATES = 10_000


class Service(enum.IntEnum):
    """What a host gets at a place."""

    BATCH = 0
    ERROR = 1
    END = 2
    LATER = 3
    """The entry is not computed yet: ask again. The content has the step that each host needs."""
    STATE_NEEDED = 4
    """The place cannot be reached without a state: send one along."""


class Serving(NamedTuple):
    """The reply to a host.

    Attributes:
        service: What it gets.
        content: A `Payload` as a tuple, an error report as a tuple, or the steps of hosts.
        following: The place that follows.
        state: The state after the step, pickled; None if it is that before the step.
    """

    service: Service
    content: Any = None
    following: Place = (0, 0)
    state: bytes | None = None


class Sequencer:
    """Server of the steps of a stream.

    Args:
        elastic: The iterator of any of the hosts.
        window: Number of steps that the fastest host may be ahead of the slowest.
    """

    def __init__(self, elastic: ElasticIterator, window: int):
        self._elastic = elastic
        self._hosts = elastic.shard_options.shard_count
        self._window = window
        self._changed = threading.Condition()
        # The entries of all hosts by place, and the place that each host needs next.
        self._entries: dict[Place, list[Serving]] = {}
        self._needed: dict[int, Place] = {}
        self._serials: dict[int, int] = {}
        self._saved: dict[int, int] = {}
        # States before steps, pickled.
        self._states: dict[int, bytes] = {}
        # The place that is computed next; None before the first host asks.
        self._next: Place | None = None
        self._ended = False
        self._start: tuple[Place, bytes | None] | None = None
        self._closed = False
        self._thread = threading.Thread(target=self._compute, name="grain-sequencer", daemon=True)
        self._thread.start()

    def take(
        self,
        host: int,
        place: Place,
        state: bytes | None,
        timeout: float,
        *,
        needed: Place | None = None,
        serial: int = 0,
    ) -> Serving:
        """Return the entry of a host at a place.

        Args:
            host: The host.
            place: The step, and the number of errors in it that the host has received.
            state: The state before the step, pickled, if the host has one; b"" at the start of the stream.
            timeout: Seconds to wait before the reply is `LATER`.
            needed: The first place that the host needs; `place` by default.
            serial: Number of the request; requests may arrive in another order.
        """
        needed = place if needed is None else needed
        with self._changed:
            if serial >= self._serials.get(host, 0):
                self._serials[host] = serial
                self._needed[host] = needed
                self._drop_passed()
                self._changed.notify_all()  # The window may have moved.
            if state is not None:
                self._learn(place[0], state)
            find = functools.partial(self._find, host, place, place == needed)
            found = self._changed.wait_for(find, timeout)
            return found or Serving(Service.LATER, {h: p[0] for h, p in self._needed.items()})

    def state(self, step: int, timeout: float) -> bytes | None:
        """Return the state before a step, pickled, or None if it is not known in time."""
        with self._changed:
            if step == 0 and self._next is None and self._start is None:
                self._start = ((0, 0), b"")
                self._changed.notify_all()
            self._changed.wait_for(lambda: self._states.get(step), timeout)
            return self._states.get(step) or None

    def acknowledge(self, host: int, step: int) -> None:
        """Record that a host has saved a state after which it will not return before `step`."""
        with self._changed:
            self._saved[host] = max(step, self._saved.get(host, 0))
            if len(self._saved) == self._hosts:
                self._drop_states(min(self._saved.values()))

    def close(self) -> None:
        """End the thread."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._thread.join()

    # All methods below, except those of the thread, are called with the lock held.

    def _find(self, host: int, place: Place, is_needed: bool) -> Serving | None:
        """Return the entry, or make sure that it will be computed."""
        for errors in range(place[1], -1, -1):
            entries = self._entries.get((place[0], errors))
            # An error of a step that did not occur again is left out.
            if entries is not None and (errors == place[1] or entries[host].following > place):
                return entries[host]
        if self._start is None and self._ended and self._next is not None and self._next <= place:
            return Serving(Service.END, None, self._next)
        begin = self._start[0] if self._start is not None else self._next
        if begin is not None and begin <= place and not self._skips(begin, place):
            return None
        if not is_needed:
            return None  # The place that the host needs is computed first.
        state = self._states.get(place[0])
        if state is None:
            # The stream's start needs no state.
            if place[0] == 0:
                state = b""
            else:
                return Serving(Service.STATE_NEEDED)
        self._start = ((place[0], 0), state)
        self._entries.clear()
        self._changed.notify_all()
        return None

    def _learn(self, step: int, state: bytes) -> None:
        """Keep the state before a step; if another one was known, start again from this one."""
        known = self._states.get(step)
        if known and state and known != state and pickle.loads(known) != pickle.loads(state):
            # Hosts have restored a checkpoint with other boundaries of steps.
            self._states.clear()
            self._entries.clear()
            self._start = ((step, 0), state)
            self._changed.notify_all()
        if state or not known:
            self._states[step] = state

    def _skips(self, begin: Place, place: Place) -> bool:
        """Return whether to continue at a later place that all hosts need, without computing up to it."""
        return (
            begin[0] + self._window < place[0] == self._lowest()
            and len(self._needed) == self._hosts
            and place[0] in self._states
        )

    def _lowest(self) -> int:
        return min((place[0] for place in self._needed.values()), default=0)

    def _drop_passed(self) -> None:
        if len(self._needed) < self._hosts:
            return
        lowest = min(self._needed.values())
        for place in [place for place in self._entries if place < lowest]:
            del self._entries[place]

    def _drop_states(self, step: int) -> None:
        for other in [other for other in self._states if other < step]:
            del self._states[other]

    # The thread

    def _compute(self) -> None:
        iterator: Any = None
        while True:
            with self._changed:
                self._changed.wait_for(self._may_compute)
                if self._closed:
                    break
                start, self._start = self._start, None
                if start is not None:
                    self._next, self._ended = start[0], False
                place = self._next
                assert place is not None
            try:
                if start is not None:
                    if iterator is not None:
                        iterator.close()
                    iterator = self._open(start[1])
                entries, following, state = self._step(iterator, place)
            except BaseException as error:
                # Not an element's: every host receives it.
                failure = tuple(report(error, where="the sequencer"))
                entries = [Serving(Service.ERROR, failure, place)] * self._hosts
                following, state = (place[0], place[1] + 1), None
            with self._changed:
                if self._start is None:
                    self._record(place, entries, following, state)
        if iterator is not None:
            iterator.close()

    def _may_compute(self) -> bool:
        if self._closed or self._start is not None:
            return True
        if self._next is None or self._ended:
            return False
        return self._next[0] < self._lowest() + self._window

    def _record(
        self, place: Place, entries: list[Serving], following: Place, state: bytes | None
    ) -> None:
        self._entries[place] = entries
        self._ended = entries[0].service is Service.END
        self._next = following
        if state is not None:
            self._states[following[0]] = state
            if len(self._states) > _MAX_STATES:
                del self._states[min(self._states)]
        self._changed.notify_all()

    def _open(self, state: bytes | None) -> Any:
        iterator = self._elastic.whole_steps().__iter__()
        if state:
            iterator.set_state(pickle.loads(state))
        else:
            with self._changed:
                self._states[0] = pickle.dumps(iterator.get_state())
        return iterator

    def _step(self, iterator: Any, place: Place) -> tuple[list[Serving], Place, bytes | None]:
        """Compute the entries at a place; return also the place after it and its state."""
        after_error = (place[0], place[1] + 1)
        try:
            step = next(iterator)
        except StopIteration:
            return [Serving(Service.END, None, place)] * self._hosts, place, None
        except Exception as error:
            failure = tuple(report(error, where="the sequencer"))
            return [Serving(Service.ERROR, failure, after_error)] * self._hosts, after_error, None
        state = pickle.dumps(iterator.get_state())
        following = (place[0] + 1, 0)
        entries = []
        for host in range(self._hosts):
            try:
                payload = pack(array_pickling.dumps_by_value(self._elastic.batch_of(step, host)))
                entries.append(Serving(Service.BATCH, tuple(payload), following, state))
            except Exception as error:  # of the user's batch function, for one host
                failure = tuple(report(error, where="the sequencer"))
                entries.append(Serving(Service.ERROR, failure, following, state))
        return entries, following, state
