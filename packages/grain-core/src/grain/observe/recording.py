"""Counters of the nodes of a pipeline, one set per thread, written without locks.

A node that works opens a *frame* and closes it when it returns. Frames nest as calls do, so the own time of
a node is the duration of its frame without the frames inside. Every thread has a recorder and is the only
one that writes to it; readers add up the counters of all threads. A worker process sends the growth of its
counters with the results of its tasks.

This module is imported by workers of observed pipelines: it loads nothing that only the consumer needs.
"""

from __future__ import annotations

import collections
import threading
import time
import weakref
from collections.abc import Callable, Iterable
from operator import add, attrgetter, sub
from typing import Any, NamedTuple

from grain import tree

_clock = time.perf_counter_ns
_cpu_clock = time.thread_time_ns

# After so many outermost frames, the time of the first is left out: it imports modules and opens files.
_WARMED_UP = 4

# The processor clock is a system call: it is read in one of so many outermost frames, and in early ones.
_CPU_EVERY = 32
# The sizes of elements are measured in one of so many calls, and in the first.
SAMPLE_EVERY = 16
FIRST_SAMPLES = 4

WORK, WAIT = "work", "wait"

# With more threads than this, those that have ended are counted as one.
_MOST_THREADS = 64


class NodeCounters:
    """Sums of one node in one thread; durations are nanoseconds."""

    __slots__ = (
        "calls",
        "cpu",
        "cpu_sampled",
        "dropped",
        "queue_filled",
        "queue_samples",
        "received",
        "returned",
        "returned_in_warm_up",
        "sampled_bytes",
        "sampled_elements",
        "waited_for_consumer",
        "waiting",
        "working",
    )

    def __init__(self) -> None:
        self.calls = 0
        self.working = 0
        self.cpu = 0
        self.cpu_sampled = 0  # The working time in which `cpu` was measured.
        self.waiting = 0
        self.waited_for_consumer = 0
        self.received = 0
        self.returned = 0
        self.returned_in_warm_up = 0
        self.dropped = 0
        self.sampled_elements = 0
        self.sampled_bytes = 0
        self.queue_samples = 0
        self.queue_filled = 0

    def values(self) -> tuple[int, ...]:
        """Return the sums in a fixed order."""
        return _all_sums(self)

    def add(self, values: Iterable[int]) -> None:
        """Add sums that `values` returned."""
        for name, value in zip(self.__slots__, values, strict=True):
            setattr(self, name, getattr(self, name) + value)


_all_sums: Callable[[NodeCounters], tuple[int, ...]] = attrgetter(*NodeCounters.__slots__)


class RecordedSpan(NamedTuple):
    """A frame on the timeline of its thread; times are nanoseconds of the clock of its process."""

    node: int
    start: int
    duration: int
    elements: int


# The frame outside: its node, durations and counts so far; then the clocks at the start of this one.
Frame = tuple[int | None, int, int, int, int, int]


class ThreadRecorder:
    """The counters of one thread for one pipeline, and the frame that is open in it.

    Attributes:
        counters: The counters by node.
        node: The node of the innermost open frame; None outside of frames.
        inside: Nanoseconds of the frames inside of the open one.
        received: The number of elements that the frames inside of the open one returned.
        kept: The number of elements that the last filter kept.
        tasks: The number of outermost frames.
        busy: Nanoseconds in outermost frames, without waiting.
        first: When the first frame was opened.
        last: When the last outermost frame was closed.
        is_consumer: Whether the consumer calls `next()` in this thread.
        spans: The most recent frames; None without tracing.
        is_brief: Whether frames inside of the open one need neither the processor clock nor a span.
    """

    def __init__(self, max_spans: int) -> None:
        self.counters: dict[int, NodeCounters] = {}
        self.node: int | None = None
        self.received = 0
        self.kept = 0
        self.tasks = 0
        self.busy = 0
        self.first = self.last = _clock()
        self.is_consumer = False
        self.spans: collections.deque[RecordedSpan] | None = None
        if max_spans:
            self.spans = collections.deque(maxlen=max_spans)
        self.is_brief = False
        self.inside = 0
        self._waited = 0  # Nanoseconds of waiting in the outermost frame.
        self._sampled_wall = self._sampled_cpu = 0
        self._measures_cpu = False
        self._cpu_inside = 0  # Nanoseconds of processor time of the frames inside of the open one.
        # The time of each node in the first outermost frame.
        self._first_frame: dict[int, int] = {}
        # The counters by node that `Recorders.growth` has returned.
        self.sent: dict[int, tuple[int, ...]] = {}
        self._thread = weakref.ref(threading.current_thread())

    @property
    def has_ended(self) -> bool:
        """Whether the thread has ended, so that nothing is recorded any more."""
        thread = self._thread()
        return thread is None or not thread.is_alive()

    def absorb(self, other: ThreadRecorder) -> None:
        """Add the counters of another thread that has ended."""
        for node, counters in other.counters.items():
            self.counters.setdefault(node, NodeCounters()).add(counters.values())
        for node, values in other.sent.items():
            before = self.sent.get(node)
            self.sent[node] = values if before is None else tuple(map(add, before, values))
        self.tasks += other.tasks
        self.busy += other.busy
        self.first, self.last = min(self.first, other.first), max(self.last, other.last)
        self._sampled_wall += other._sampled_wall
        self._sampled_cpu += other._sampled_cpu
        if self.spans is not None:
            self.spans.extend(other.spans or ())

    def reset(self) -> None:
        """Forget frames that are open: an interrupt may have come before one was closed."""
        self.node = None
        self.received = self.inside = self._waited = self._cpu_inside = 0

    def start_warm_up(self) -> None:
        """Note that elements are part of the warm-up from now on."""
        for counters in self.counters.values():
            counters.returned_in_warm_up -= counters.returned

    def end_warm_up(self) -> None:
        """Note that the warm-up that `start_warm_up` started has ended."""
        for counters in self.counters.values():
            counters.returned_in_warm_up += counters.returned

    def open(self, node: int) -> Frame:
        """Open a frame of a node; pass the result to `close`."""
        outer = self.node
        if outer is None:
            self._waited = 0
            tasks = self.tasks
            # Not in the first, which imports modules.
            self._measures_cpu = 0 < tasks < FIRST_SAMPLES or (tasks + 1) % _CPU_EVERY == 0
            self.is_brief = not self._measures_cpu and self.spans is None
        cpu = _cpu_clock() if self._measures_cpu else 0
        frame = outer, self.inside, self.received, self._cpu_inside, cpu, _clock()
        self.node, self.inside, self.received, self._cpu_inside = node, 0, 0, 0
        return frame

    def close(
        self,
        frame: Frame,
        returned: int = 0,
        kind: str = WORK,
        drops: bool = False,
    ) -> NodeCounters | None:
        """Close a frame.

        Args:
            frame: The result of `open`.
            returned: The number of elements that the node returns.
            kind: Whether the own time of the frame was work or waiting.
            drops: Whether elements that were received and not returned were dropped.

        Returns:
            The counters of the node, if the size of an element is to be added to them.
        """
        outer, inside, received, cpu_inside, cpu_started, started = frame
        duration = _clock() - started
        node = self.node
        assert node is not None
        counters = self.counters.get(node) or self.add_node(node)
        own = duration - self.inside
        if self._measures_cpu:
            cpu = _cpu_clock() - cpu_started
            if kind is WORK:
                counters.cpu += cpu - self._cpu_inside
                counters.cpu_sampled += own
            self._cpu_inside = cpu_inside + cpu
        if kind is WORK:
            counters.working += own
        else:
            counters.waiting += own
            self._waited += own
        self.node, self.inside = outer, inside + duration
        if outer == node:  # A method of the node called another one of it.
            self.received += received
            return None
        counters.calls += 1
        counters.received += self.received
        counters.returned += returned
        if drops:
            # Negative where elements that were kept back are returned.
            counters.dropped += self.received - returned
        self.received = received + returned
        if self.spans is not None:
            self.spans.append(RecordedSpan(node, started, duration, returned))
        if outer is None:
            self._close_outermost(started, duration)
        calls = counters.calls
        return counters if calls <= FIRST_SAMPLES or not calls % SAMPLE_EVERY else None

    def add_node(self, node: int) -> NodeCounters:
        """Return new counters of a node."""
        counters = self.counters[node] = NodeCounters()
        return counters

    def _close_outermost(self, started: int, duration: int) -> None:
        self.tasks += 1
        self.received = self.inside = 0
        self.busy += duration - self._waited
        if self.tasks == 1:
            self._first_frame = {node: counters.working for node, counters in self.counters.items()}
        elif self.tasks == _WARMED_UP:
            for node, working in self._first_frame.items():
                self.counters[node].working -= working
            self.busy = max(0, self.busy - sum(self._first_frame.values()))
        self.last = started + duration
        if self._measures_cpu:
            self._sampled_cpu += self._cpu_inside
            self._sampled_wall += duration - self._waited
        self._cpu_inside = 0

    @property
    def cpu(self) -> int:
        """Nanoseconds of processor time in outermost frames, extrapolated from those measured."""
        if not self._sampled_wall:
            return 0
        return int(self.busy * min(1.0, self._sampled_cpu / self._sampled_wall))


class Recorders:
    """The recorders of all threads of one process for one pipeline.

    Args:
        key: Identifies the pipeline in all of its processes.
        max_spans: The number of spans to keep per thread; 0 records none.
    """

    def __init__(self, key: str, max_spans: int = 0):
        self.key = key
        self.max_spans = max_spans
        self.threads: list[ThreadRecorder] = []
        # The largest capacity of the queue of each node that has one.
        self.capacities: dict[int, int] = {}
        self._local = threading.local()
        self._lock = threading.Lock()

    def current(self) -> ThreadRecorder:
        """Return the recorder of this thread."""
        try:
            found: ThreadRecorder = self._local.recorder
        except AttributeError:
            found = self._local.recorder = ThreadRecorder(self.max_spans)
            with self._lock:
                if len(self.threads) >= _MOST_THREADS:
                    self._join_ended()
                self.threads.append(found)
        return found

    def _join_ended(self) -> None:
        """Count all threads that have ended as one."""
        ended = [
            recorder for recorder in self.threads if recorder.has_ended and not recorder.is_consumer
        ]
        for recorder in ended[1:]:
            ended[0].absorb(recorder)
        gone = set(map(id, ended[1:]))
        self.threads = [recorder for recorder in self.threads if id(recorder) not in gone]

    def has_open_frame(self) -> bool:
        """Return whether a node works in this thread."""
        found: ThreadRecorder | None = getattr(self._local, "recorder", None)
        return found is not None and found.node is not None

    def totals(self) -> dict[int, NodeCounters]:
        """Return the counters of all threads, added up."""
        totals: dict[int, NodeCounters] = {}
        for recorder in list(self.threads):
            for node, counters in list(recorder.counters.items()):
                totals.setdefault(node, NodeCounters()).add(counters.values())
        return totals

    def growth(self) -> dict[int, tuple[int, ...]]:
        """Return by how much counters have grown since the last call, for nodes whose counters have."""
        found: dict[int, tuple[int, ...]] = {}
        with self._lock:
            for recorder in self.threads:
                for node, counters in list(recorder.counters.items()):
                    values = counters.values()
                    before = recorder.sent.get(node)
                    if values == before:
                        continue
                    recorder.sent[node] = values
                    if before is not None:
                        values = tuple(map(sub, values, before))
                    earlier = found.get(node)
                    found[node] = values if earlier is None else tuple(map(add, earlier, values))
        return found

    def take_spans(self) -> list[tuple[int, RecordedSpan]]:
        """Remove the spans of all threads and return them, each with the number of its thread."""
        taken: list[tuple[int, RecordedSpan]] = []
        if self.max_spans:
            for number, recorder in enumerate(list(self.threads)):
                spans = recorder.spans
                while spans:
                    taken.append((number, spans.popleft()))
        return taken


# The recorders of this process, by key. Nodes hold them, so that they last as long as the pipeline.
_by_key: weakref.WeakValueDictionary[str, Recorders] = weakref.WeakValueDictionary()


def recorders_for(key: str, max_spans: int = 0) -> Recorders:
    """Return the recorders of a pipeline in this process."""
    found = _by_key.get(key)
    if found is None:
        found = _by_key[key] = Recorders(key, max_spans)
    return found


def sample_size(counters: NodeCounters, elements: Any) -> None:
    """Add the size of one element to the counters."""
    if not elements:
        return
    element = elements[len(elements) // 2]
    if element is not None:
        counters.sampled_elements += 1
        counters.sampled_bytes += tree.nbytes(element)


def is_recording() -> bool:
    """Return whether this thread is inside of a frame of any pipeline."""
    return any(recorders.has_open_frame() for recorders in list(_by_key.values()))
