"""How many threads read at the same time: all that are allowed, or one where more are in each other's way.

Threads that wait for a disk or a server, or that compute without the interpreter's lock, bring more the
more of them there are. Those that need the lock bring nothing, and worse: each waits its turn after
every short call to the system. Which it is nobody knows beforehand, so both are tried.
"""

from __future__ import annotations

# One is enough to be ahead of the consumer; two tell whether a second processor can be used. If four
# bring more than two, so will all.
_LEVELS = (1, 2, 4)
# Nothing is decided by less than this.
_LEAST_BLOCKS = 8
_LEAST_SECONDS = 0.02
# Threads are judged when the consumer waits for them this part of the time.
_WAITED = 0.25
# All threads together should be so many times as fast as the consumer's thread alone.
_LEAST_GAIN = 1.3
# Threads that keep about one processor busy, all together, may wait for the interpreter's lock.
_ONE_PROCESSOR = (0.4, 1.3)
# A few threads that are busy for less than this part of the time they once were wait for something new.
_CHANGED = 0.5
# A change must bring at least so much; fewer threads may also cost a little.
_BETTER = 1.15
_AS_GOOD = 0.9
# So many windows pass before what was found is put to the test again, and twice as many each time.
_HOLD = 64


class _Window:
    """Blocks that were read by one number of threads.

    Attributes:
      blocks: how many.
      waited: how long the consumer waited for them, in seconds.
      elements: how many elements they have.
      busy: how long processors were busy with them, in seconds.
      reading: how long threads took to read them, all together.
      begin: when the first was begun.
      end: when the last was finished.
    """

    __slots__ = ("begin", "blocks", "busy", "elements", "end", "reading", "waited")

    def __init__(self) -> None:
        self.blocks = self.elements = 0
        self.waited = self.busy = self.reading = self.end = 0.0
        self.begin = float("inf")

    @property
    def seconds(self) -> float:
        """How long it took, from the first to the last."""
        return max(self.end - self.begin, 1e-9)

    @property
    def rate(self) -> float:
        """Elements in a second."""
        return self.elements / self.seconds

    @property
    def share(self) -> float:
        """For which part of their time the threads were busy."""
        return self.busy / max(self.reading, 1e-9)


class ThreadCount:
    """Decides by what was read how many threads read on.

    Those that wait begin with all of them, the others with one; more are tried step by step.

    Args:
      most: how many there may be.
      alone: seconds that the consumer's thread takes for an element when nobody helps it, if known.
      waits: whether it then waits most of the time for something else than the processor.

    Attributes:
      turn: counts the changes; blocks are told apart by it, for those under way at a change belong to
        the number before.
    """

    def __init__(self, most: int, alone: float | None, waits: bool = True):
        self.turn = 0
        self._levels = [*(level for level in _LEVELS if level < most), most]
        self._level = len(self._levels) - 1 if waits else 0
        self._alone = alone
        # While another level is on trial: the one before, and its rate.
        self._rival: tuple[int, float] | None = None
        self._hold = 0
        self._next_hold = _HOLD
        # For which share of their time threads were busy when there were found to be enough of them.
        self._share = 0.0
        self._window = _Window()

    @property
    def now(self) -> int:
        """How many there should be."""
        return self._levels[self._level]

    @property
    def _at_most(self) -> bool:
        return self._level == len(self._levels) - 1

    def note(
        self, turn: int, count: int, begin: float, seconds: float, busy: float, waited: float
    ) -> None:
        """Hears of a block that the consumer has taken.

        Args:
          turn: the turn in which it was asked for.
          count: how many elements it has.
          begin: when a thread began it.
          seconds: how long that took.
          busy: how long a processor was busy with it.
          waited: how long the consumer waited for it.
        """
        if turn != self.turn or len(self._levels) == 1:
            return
        window = self._window
        window.blocks += 1
        window.waited += waited
        window.elements += count
        window.busy += busy
        window.reading += seconds
        window.begin = min(window.begin, begin)
        window.end = max(window.end, begin + seconds)
        if window.blocks >= max(_LEAST_BLOCKS, 2 * self.now) and window.seconds >= _LEAST_SECONDS:
            self._window = _Window()
            # Who is not waited for is fast enough, and may have had nothing to do.
            if window.waited > _WAITED * window.seconds:
                self._judge(window)

    def _judge(self, window: _Window) -> None:
        if self._rival is not None:
            self._decide(window, *self._rival)
        elif self._hold and not self._has_changed(window):
            self._hold -= 1
        elif not self._at_most:
            self._try(self._level + 1, window)
        elif self._in_the_way(window):
            self._try(0, window)

    def _has_changed(self, window: _Window) -> bool:
        """Whether threads that were enough wait much more than they did."""
        if self._at_most or window.share > _CHANGED * self._share:
            return False
        self._share = window.share
        return True

    def _in_the_way(self, window: _Window) -> bool:
        """Whether fewer threads may bring as much."""
        processors = window.busy / window.seconds
        low, high = _ONE_PROCESSOR
        if processors < low:
            return False  # They wait for something else than each other.
        if self._alone is not None:
            return window.rate * self._alone < _LEAST_GAIN
        return processors < high

    def _try(self, level: int, window: _Window) -> None:
        self._rival = (self._level, window.rate)
        self._share = window.share
        self._go_to(level)

    def _decide(self, window: _Window, before: int, rate: float) -> None:
        """Keeps what is on trial, or goes back to what was before."""
        self._rival = None
        more = self._level > before
        if window.rate < rate * (_BETTER if more else _AS_GOOD):
            self._go_to(before)
            self._hold, self._next_hold = self._next_hold, 2 * self._next_hold
            return
        self._share = window.share
        # Where more is better, still more may be.
        self._hold, self._next_hold = 0 if more else _HOLD, 2 * _HOLD

    def _go_to(self, level: int) -> None:
        self._level = level
        self.turn += 1
        self._window = _Window()
