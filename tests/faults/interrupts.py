"""Interrupt injection: raise KeyboardInterrupt at each point where a real Ctrl-C can strike.

CPython delivers a signal when a Python function starts, after a call of a C function has returned, and
inside calls that block. A profile hook sees the same points: the start of a function, the return of a
C function, and, for calls that may block, the moment before they take effect. Every point inside the
library, and inside the standard library below it, is a boundary; the n-th boundary of a round is
interrupted, and the round continues as a program would that catches the interrupt.
"""

from __future__ import annotations

import collections
import contextlib
import contextvars
import dataclasses
import faulthandler
import gc
import os
import random
import signal
import sys
import sysconfig
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import grain
from grain.execution.processes.template_client import start_early

from .history import BrokenHistory, Checker, Stream, close, raw_state

_LIBRARY = str(Path(grain.__file__).parent)
_STANDARD_LIBRARY = sysconfig.get_path("stdlib")
# Half-imported modules are the interpreter's business, and so is the registry of finalizers, which forgets
# one that it was about to call (in `weakref`). The recursion guard of `repr` in `dataclasses` and `reprlib`
# is not: texts made with it are in states.
_NOT_INTERRUPTED = (
    "importlib",
    "linecache.py",
    "warnings.py",
    "weakref.py",
)
# The interpreter drops an interrupt that strikes as one of these starts, and the call with it.
_FINALIZERS = {"__del__", "end_when_collected"}
_BLOCKING = {
    "accept", "acquire", "connect", "join", "poll", "read", "recv", "recv_into", "recvmsg",
    "recvmsg_into", "select", "send", "sendall", "sendmsg", "sleep", "wait", "waitid", "waitpid",
    "write",
}  # fmt: skip
# The interpreter drops the result of a call that is interrupted while it returns; if that is a descriptor,
# it stays open, and no program can close it.
_LOST_WITH_THEIR_RESULT = {"recvmsg_into", "recvmsg"}
HANG_SECONDS = 30.0
SETTLE_SECONDS = 20.0


class Hang(BaseException):
    """A call did not return in time."""


class Injector:
    """Raises KeyboardInterrupt at chosen boundaries, counted over all calls made through it.

    Args:
        gaps: the number of boundaries to let pass before each interrupt.

    Attributes:
        fired: where interrupts were raised: file name, function and line.
        left_over: whether the gaps were not used up: all boundaries have passed.
    """

    def __init__(self, gaps: list[int]):
        self._gaps = collections.deque(gaps)
        self._left = self._gaps.popleft() if self._gaps else None
        self.fired: list[str] = []
        self.seen = 0

    @property
    def left_over(self) -> bool:
        return self._left is not None

    def __call__(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call a function of the library, and interrupt it when its boundary comes."""
        if self._left is None:
            return function(*arguments)
        # Kept here: CPython 3.11 calls a hook that an interrupt in a weakref's callback has freed.
        hook = self._hook
        sys.setprofile(hook)
        try:
            return function(*arguments)
        finally:
            sys.setprofile(None)

    def _hook(self, frame: FrameType, event: str, argument: Any) -> None:
        if event == "c_call":
            if argument.__name__ not in _BLOCKING:
                return
        elif event == "c_return":
            if argument.__name__ in _LOST_WITH_THEIR_RESULT:
                return
        elif event != "call":
            return
        code = frame.f_code
        name = code.co_filename
        if not name.startswith((_LIBRARY, _STANDARD_LIBRARY)) or code.co_name == "<module>":
            return
        if any(part in name for part in _NOT_INTERRUPTED) or code.co_name in _FINALIZERS:
            return
        self.seen += 1
        if self._left is None:
            return
        self._left -= 1
        if self._left > 0:
            return
        self._left = self._gaps.popleft() if self._gaps else None
        self.fired.append(f"{os.path.basename(name)}:{frame.f_lineno} {code.co_name} {event}")
        raise KeyboardInterrupt


@contextlib.contextmanager
def no_hang(seconds: float = HANG_SECONDS) -> Iterator[None]:
    """Raise Hang in a block that does not end in time, with the tracebacks of all threads."""

    def on_alarm(number: int, frame: FrameType | None) -> None:
        faulthandler.dump_traceback(file=sys.__stderr__)
        raise Hang(f"no progress in {seconds:g} seconds")

    before = signal.signal(signal.SIGALRM, on_alarm)
    # A second hang, in code that handles the first: nothing can be rescued.
    faulthandler.dump_traceback_later(3 * seconds, exit=True, file=sys.__stderr__)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        faulthandler.cancel_dump_traceback_later()
        signal.signal(signal.SIGALRM, before)


# --- what a process holds ------------------------------------------------------------------------


def children(pid: int | str = "self") -> set[int]:
    """Return the processes that a process has started, and those that they have."""
    found: set[int] = set()
    with contextlib.suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            with contextlib.suppress(OSError):
                found.update(map(int, (task / "children").read_text().split()))
    return found.union(*map(children, found))


def held() -> dict[str, int]:
    """Count what this process holds: threads, descriptors, child processes.

    The process that forks the workers of the next pool is always among them, also before there is a pool.
    """
    start_early()
    return {
        "threads": len(os.listdir("/proc/self/task")),
        "descriptors": len(os.listdir("/proc/self/fd")),
        "children": len(children()),
    }


def wait_for_release(before: dict[str, int], seconds: float = SETTLE_SECONDS) -> dict[str, str]:
    """Wait until this process holds no more than before; return what it still holds by then."""
    deadline = time.monotonic() + seconds
    collected = False
    while True:
        now = held()
        more = {name: f"{before[name]} -> {now[name]}" for name in now if now[name] > before[name]}
        if not more or time.monotonic() > deadline:
            return more
        if not collected:
            gc.collect()
            collected = True
        else:
            time.sleep(0.005)


# --- rounds --------------------------------------------------------------------------------------


@dataclasses.dataclass
class Tally:
    """Counts over many rounds.

    Attributes:
        sites: the places that were interrupted, with counts.
        closed: rounds whose iterator was closed by the interrupt, with a clear error.
        swallowed: interrupts that the interpreter reported and dropped, as it does in finalizers.
        bad: descriptions of rounds that hung, leaked, lost or doubled.
    """

    rounds: int = 0
    boundaries: int = 0
    interrupts: int = 0
    closed: int = 0
    swallowed: int = 0
    sites: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)
    bad: list[str] = dataclasses.field(default_factory=list)


class _Round:
    """One iterator, driven through a fixed script of calls while interrupts strike."""

    def __init__(self, make: Callable[[], Any], stream: Stream, injector: Injector):
        self.make, self.stream, self.inject = make, stream, injector
        self.checker: Checker | None = None
        self.closed = False

    def retry(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call until the call is not interrupted."""
        while True:
            try:
                return self.inject(function, *arguments)
            except KeyboardInterrupt:
                continue

    def run(self, prefetch: bool, jumps: tuple[int, ...]) -> None:
        dataset = self.make()
        iterator = self.retry(iter, dataset)
        self.checker = Checker(self.stream, iterator)
        length = len(self.stream.elements)
        if prefetch and hasattr(iterator, "start_prefetch"):
            self.retry(iterator.start_prefetch)
        self.take(min(3, length))
        for jump in jumps:
            self.set_state(min(jump, length))
            self.take(min(2, length - self.checker.position))
            if self.closed:
                return
        self.take(length - self.checker.position + 1)
        if not self.closed:
            self.retry(close, iterator)

    def take(self, count: int) -> None:
        """Take elements, and compare the state after each interrupt and at the end."""
        checker = self.checker
        assert checker is not None
        taken = 0
        while taken < count and not self.closed:
            try:
                element = self.inject(next, checker.iterator)
            except KeyboardInterrupt:
                self.check_state()
                continue
            except StopIteration:
                if checker.position != len(self.stream.elements):
                    raise BrokenHistory(f"ended after {checker.position} elements") from None
                break
            except ValueError as error:
                if "closed" not in str(error):
                    raise
                self.closed = True
                break
            checker.accept(element)
            taken += 1
        self.check_state()

    def check_state(self) -> None:
        """Compare the state, taken in spite of interrupts."""
        checker = self.checker
        assert checker is not None
        state = self.retry(checker.iterator.get_state)
        if checker.position not in self.stream.positions(state):
            raise BrokenHistory(
                f"the state after {checker.position} elements is {state!r}, which belongs to "
                f"{sorted(self.stream.positions(state))}"
            )

    def set_state(self, position: int) -> None:
        """Go to another position; after an interrupt the iterator is there, or where it was."""
        checker = self.checker
        assert checker is not None
        if self.closed:
            return
        state = raw_state(self.stream.states[position], self.retry(checker.iterator.get_state))
        while True:
            try:
                self.inject(checker.iterator.set_state, state)
            except KeyboardInterrupt:
                found = self.stream.positions(self.retry(checker.iterator.get_state))
                allowed = found & {checker.position, position}
                if not allowed:
                    raise BrokenHistory(
                        f"interrupted between {checker.position} and {position}, the state belongs "
                        f"to {sorted(found)}"
                    ) from None
                if allowed == {position}:
                    checker.position = position
                # Elements have to agree with the state before the state is set once more.
                self.take(min(1, len(self.stream.elements) - checker.position))
                continue
            checker.position = position
            return


@contextlib.contextmanager
def counting_swallowed(tally: Tally) -> Iterator[None]:
    """Count interrupts that the interpreter reports and drops, as it does in finalizers."""
    before = sys.unraisablehook

    def count(unraisable: Any) -> None:
        if not isinstance(unraisable.exc_value, KeyboardInterrupt):
            before(unraisable)
        tally.swallowed += 1

    sys.unraisablehook = count
    try:
        yield
    finally:
        sys.unraisablehook = before


def _innermost(error: BaseException, count: int = 4) -> list[str]:
    """Return the innermost frames of an error: an interpreter's error says nothing about its cause."""
    frames = traceback.extract_tb(error.__traceback__)[-count:]
    return [f"{os.path.basename(f.filename)}:{f.lineno} {f.name}" for f in frames]


def play(
    make: Callable[[], Any],
    stream: Stream,
    gaps: list[int],
    tally: Tally,
    *,
    label: str,
    prefetch: bool = False,
    jumps: tuple[int, ...] = (1,),
    hang_seconds: float = HANG_SECONDS,
) -> bool:
    """Play one round; return whether all of its interrupts struck.

    Args:
        make: makes the dataset.
        stream: what the dataset gives without interrupts.
        gaps: the boundaries between interrupts.
        tally: where the outcome is counted.
        label: names the pipeline in failures.
        prefetch: whether `start_prefetch` is called first.
        jumps: the positions that `set_state` goes to.
        hang_seconds: the time after which a round counts as hung.
    """
    injector = Injector(gaps)
    before, context = held(), dict(contextvars.copy_context().items())
    current: _Round | None = _Round(make, stream, injector)
    failure: str | None = None
    try:
        with no_hang(hang_seconds), counting_swallowed(tally):
            current.run(prefetch, jumps)
    except KeyboardInterrupt:
        raise  # A real one.
    except BaseException as error:
        failure = f"{type(error).__name__}: {error} {_innermost(error)}"
    tally.rounds += 1
    tally.boundaries += injector.seen
    tally.interrupts += len(injector.fired)
    tally.closed += current.closed
    tally.sites.update(injector.fired)
    checker, current = current.checker, None
    if checker is not None and failure is not None:
        with contextlib.suppress(BaseException), no_hang(hang_seconds):
            close(checker.iterator)
    del checker
    if failure is None:
        more = wait_for_release(before)
        if more:
            failure = f"leak: {more}"
        elif any(variable.get(value) is not value for variable, value in context.items()):
            failure = "leak: a context variable keeps its value"
    if failure is not None:
        tally.bad.append(f"{label} gaps={gaps} at {injector.fired[-3:]}: {failure}")
    return not injector.left_over


def boundaries(make: Callable[[], Any], stream: Stream, tally: Tally, **options: Any) -> int:
    """Play rounds without interrupts; return how many boundaries a round has.

    The first round of a process also imports modules, and is not counted.
    """
    play(make, stream, [sys.maxsize], tally, **options)
    before = tally.boundaries
    play(make, stream, [sys.maxsize], tally, **options)
    return tally.boundaries - before


def sample(
    make: Callable[[], Any], stream: Stream, seed: int, rounds: int, **options: Any
) -> Tally:
    """Play rounds with one interrupt each, at seeded boundaries, and one round with several."""
    tally, rng = Tally(), random.Random(seed)
    count = boundaries(make, stream, tally, **options)
    for _ in range(rounds):
        play(make, stream, [rng.randint(1, count)], tally, **options)
    play(make, stream, [rng.randint(1, count) for _ in range(4)], tally, **options)
    return tally


def exhaust(make: Callable[[], Any], stream: Stream, tally: Tally, **options: Any) -> None:
    """Interrupt each boundary once, each in a round of its own."""
    boundary = 1
    while play(make, stream, [boundary], tally, **options):
        boundary += 1
