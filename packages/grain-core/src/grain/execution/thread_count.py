"""Choice of the number of reading threads by measurement.

Threads that wait for I/O, or that release the interpreter lock while they compute, scale with their
number. Threads that need the lock do not, and contend for it after every short system call. Which case
applies is not known in advance, so both are measured.
"""

from __future__ import annotations

import collections

from grain._policy import Policy, current_policy


class FastestReads:
    """Cost of an element in the fastest of the last reads; others may have waited for a processor."""

    def __init__(self, count: int):
        self._reads: collections.deque[tuple[float, float]] = collections.deque(maxlen=count)

    def add(self, seconds: float, busy: float, count: int) -> None:
        """Add a read of `count` elements that took `seconds`, `busy` of them on a processor."""
        if count:
            self._reads.append((seconds / count, busy / count))

    @property
    def is_full(self) -> bool:
        """Whether as many reads were added as count."""
        return len(self._reads) == self._reads.maxlen

    @property
    def seconds(self) -> float | None:
        """Seconds per element; None before the first read."""
        return min(self._reads)[0] if self._reads else None

    def wait(self, policy: Policy) -> bool:
        """Return whether reading an element mostly waits, and long enough to hide a change of threads."""
        seconds, busy = min(self._reads, default=(0.0, 0.0))
        least = policy.waiting_element_seconds
        return seconds > least and seconds - busy >= policy.waiting_share * seconds

    def are_slow(self, policy: Policy) -> bool:
        """Return whether elements take so long that threads pay off."""
        return (self.seconds or 0.0) > policy.slow_element_seconds or self.wait(policy)


class _Window:
    """Measurements of the blocks that one number of threads has read.

    Attributes:
        blocks: Number of blocks.
        waited: Seconds that the consumer waited for them.
        elements: Number of their elements.
        busy: Seconds of processor time spent on them.
        reading: Seconds that threads took to read them, summed over threads.
        begin: Time at which the first was started.
        end: Time at which the last was finished.
    """

    __slots__ = ("begin", "blocks", "busy", "elements", "end", "reading", "waited")

    def __init__(self) -> None:
        self.blocks = self.elements = 0
        self.waited = self.busy = self.reading = self.end = 0.0
        self.begin = float("inf")

    @property
    def seconds(self) -> float:
        """Seconds from the start of the first block to the end of the last."""
        return max(self.end - self.begin, 1e-9)

    @property
    def rate(self) -> float:
        """Elements per second."""
        return self.elements / self.seconds

    @property
    def busy_share(self) -> float:
        """Share of their reading time in which the threads used a processor."""
        return self.busy / max(self.reading, 1e-9)


class ThreadCount:
    """Adaptive number of reading threads.

    Reading that waits starts with all threads, other reading with one; more are tried level by level. A
    level that does not pay off is left again, and tested again after a while.

    Args:
        most: Largest number of threads.
        alone: Seconds per element in the consumer's thread without read-ahead, if known.
        waits: Whether reading waits for I/O most of the time.
        policy: Tuning constants; those of the process by default.

    Attributes:
        generation: Number of changes so far. Blocks carry the generation in which they were started,
            since those in flight at a change belong to the number of threads before it.
    """

    def __init__(
        self, most: int, alone: float | None, waits: bool = True, policy: Policy | None = None
    ):
        self.generation = 0
        self._policy = policy or current_policy()
        self._levels = [*(level for level in self._policy.thread_levels if level < most), most]
        self._level = len(self._levels) - 1 if waits else 0
        self._alone = alone
        # While a level is on trial: the level before it, and the rate of that level.
        self._rival: tuple[int, float] | None = None
        # Windows until the decision is tested again.
        self._hold = 0
        self._next_hold = self._policy.thread_hold_windows
        # Busy share of the threads when their number was found to be sufficient.
        self._busy_share = 0.0
        self._window = _Window()

    @property
    def now(self) -> int:
        """Number of threads to use."""
        return self._levels[self._level]

    @property
    def _at_most(self) -> bool:
        return self._level == len(self._levels) - 1

    def observe(
        self, generation: int, count: int, begin: float, seconds: float, busy: float, waited: float
    ) -> None:
        """Adapt to a block that the consumer has taken.

        Args:
            generation: Generation in which the block was started.
            count: Number of its elements.
            begin: Time at which a thread started it.
            seconds: Seconds that reading took.
            busy: Seconds of processor time among them.
            waited: Seconds that the consumer waited for it.
        """
        if generation != self.generation or len(self._levels) == 1:
            return
        policy, window = self._policy, self._window
        window.blocks += 1
        window.waited += waited
        window.elements += count
        window.busy += busy
        window.reading += seconds
        window.begin = min(window.begin, begin)
        window.end = max(window.end, begin + seconds)
        enough = max(policy.thread_window_blocks, 2 * self.now)
        if window.blocks >= enough and window.seconds >= policy.thread_window_seconds:
            self._window = _Window()
            # Threads that the consumer does not wait for are fast enough, and may have been idle.
            if window.waited > policy.thread_waited_share * window.seconds:
                self._judge(window)

    def _judge(self, window: _Window) -> None:
        if self._rival is not None:
            self._decide(window, *self._rival)
        elif self._hold and not self._has_changed(window):
            self._hold -= 1
        elif not self._at_most:
            self._try(self._level + 1, window)
        elif self._contend(window):
            self._try(0, window)

    def _has_changed(self, window: _Window) -> bool:
        """Return whether threads whose number was sufficient now wait much more."""
        if self._at_most or window.busy_share > self._policy.thread_busy_change * self._busy_share:
            return False
        self._busy_share = window.busy_share
        return True

    def _contend(self, window: _Window) -> bool:
        """Return whether fewer threads may read as fast."""
        processors = window.busy / window.seconds
        low, high = self._policy.contended_processors
        if processors < low:
            return False  # They wait for I/O, not for each other.
        if self._alone is not None:
            return window.rate * self._alone < self._policy.thread_min_gain
        return processors < high

    def _try(self, level: int, window: _Window) -> None:
        self._rival = (self._level, window.rate)
        self._busy_share = window.busy_share
        self._set_level(level)

    def _decide(self, window: _Window, before: int, rate: float) -> None:
        """Keep the level on trial, or return to the one before."""
        policy = self._policy
        self._rival = None
        more = self._level > before
        if window.rate < rate * (policy.more_threads_gain if more else policy.fewer_threads_gain):
            self._set_level(before)
            self._hold, self._next_hold = self._next_hold, 2 * self._next_hold
            return
        self._busy_share = window.busy_share
        # Where more threads are better, the next level may be better still.
        self._hold = 0 if more else policy.thread_hold_windows
        self._next_hold = 2 * policy.thread_hold_windows

    def _set_level(self, level: int) -> None:
        self._level = level
        self.generation += 1
        self._window = _Window()
