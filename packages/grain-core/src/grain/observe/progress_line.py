"""A line that shows how far a loop over elements is: throughput, the share of waiting, the epoch.

In a terminal the line is rewritten in place, in a notebook an output is updated, and elsewhere (a log file,
a batch job) a line is written now and then. Nothing is measured but the time in and between `next()` calls,
so no pipeline has to be observed.
"""

from __future__ import annotations

import html
import math
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from operator import length_hint
from typing import Any, Generic, Protocol, Self, TypeVar

from grain.dataset.next_index import get_next_index
from grain.observe.one_line import one_line

T = TypeVar("T")

_TERMINAL_SECONDS = 0.1
_LOG_SECONDS = 10.0


class Display(Protocol):
    """Shows a line in place of the one before.

    Attributes:
        interval: Seconds between two updates.
    """

    interval: float

    def show(self, line: str, *, last: bool) -> None:
        """Show a line; the last one stays."""


def progress(
    elements: Any,
    *,
    total: int | None = None,
    description: str = "",
    epoch: int | None = None,
    epoch_length: int | None = None,
    file: Any = None,
    interval: float | None = None,
) -> ProgressIterator[Any]:
    """Return an iterator over the same elements that shows a line about its progress.

    The line has the number of elements, elements per second, the share of the time that was spent waiting
    for elements, the epoch, and the time left where the total is known. After a resume, it counts from the
    restored position. States and other members of the iterator are available through the result.

    Args:
        elements: A dataset, a `DataLoader`, an iterator of these, or any other iterable.
        total: The number of elements; by default the length, where it is known.
        description: Comes first in the line.
        epoch: The number of the first epoch in the line, such as 2 for the second of `ds.epochs(3)`; by
            default epochs are shown from the second on.
        epoch_length: The number of elements of an epoch, for datasets that repeat; by default an epoch
            ends with the elements.
        file: Where to write the line; the standard error by default.
        interval: Seconds between two updates; by default 0.1 in terminals and notebooks, 10 elsewhere.

    >>> import grain
    >>> import io
    >>> ds = grain.MapDataset.range(4)
    >>> sum(progress(ds, description="train", file=io.StringIO()))
    6
    """
    if not (hasattr(elements, "__iter__") or hasattr(elements, "__next__")):
        raise TypeError(
            f"progress needs a dataset, a DataLoader or an iterator, got {elements!r} of type "
            f"{type(elements).__name__}."
        )
    for name, value in (("total", total), ("epoch", epoch), ("epoch_length", epoch_length)):
        if value is not None and (isinstance(value, bool) or not hasattr(value, "__index__")):
            raise TypeError(
                f"{name} must be an integer, got {value!r} of type {type(value).__name__}."
            )
    if epoch_length is not None and epoch_length < 1:
        raise ValueError(f"epoch_length must be positive, got {epoch_length}")
    if interval is not None and not interval >= 0:
        raise ValueError(f"interval must be a number of seconds, got {interval!r}")
    return ProgressIterator(
        elements,
        total=total,
        description=description,
        epoch=epoch,
        epoch_length=epoch_length,
        display=display_for(file, interval),
    )


class ProgressIterator(Iterator[T], Generic[T]):
    """An iterator that shows its progress; see `progress`."""

    def __init__(
        self,
        elements: Any,
        *,
        total: int | None = None,
        description: str = "",
        epoch: int | None = None,
        epoch_length: int | None = None,
        display: Display,
        clock: Callable[[], float] = time.perf_counter,
    ):
        self._elements = elements
        self._given_total = total
        self._description = one_line(description)
        self._epoch = epoch
        self._epoch_length = epoch_length
        self._display = display
        self._clock = clock
        self._passes = 0
        self._iterator: Any = None
        if hasattr(elements, "__next__"):
            self._open(elements)

    def _open(self, iterator: Any) -> None:
        self._iterator = iterator
        self._total = _length(self._elements) if self._given_total is None else self._given_total
        self._ended = False
        self._restart()

    def _restart(self) -> None:
        """Count from the position of the iterator; the time before does not count."""
        self._first = self._count = _position(self._iterator)
        self._waited = 0.0
        self._started = self._shown = self._clock()
        self._after_first: tuple[float, float] | None = None

    def __iter__(self) -> Self:
        if self._iterator is None or (self._ended and not hasattr(self._elements, "__next__")):
            self._open(iter(self._elements))
        return self

    def __next__(self) -> T:
        if self._iterator is None:
            self._open(iter(self._elements))
        before = self._clock()
        try:
            element: T = next(self._iterator)
        except StopIteration:
            if not self._ended:
                self._ended = True
                self._show(last=True)
                self._passes += 1
            raise
        except BaseException:
            self._show(last=True)
            raise
        after = self._clock()
        self._waited += after - before
        self._count += 1
        if self._after_first is None:  # The first element includes the start of workers.
            self._after_first = after, self._waited
        if after - self._shown >= self._display.interval:
            self._show()
        return element

    def set_state(self, state: Any) -> None:
        """Restore a state of the iterator, and count from its position."""
        if self._iterator is None:
            self._open(iter(self._elements))
        self._iterator.set_state(state)
        self._ended = False
        self._restart()

    def close(self) -> None:
        """Show the last line, and close the iterator if it can be closed."""
        if self._iterator is not None and not self._ended:
            self._ended = True
            self._show(last=True)
        close = getattr(self._iterator, "close", None)
        if close is not None:
            close()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        if self._iterator is None:
            self._open(iter(self._elements))
        return getattr(self._iterator, name)

    def _show(self, *, last: bool = False) -> None:
        self._shown = self._clock()
        self._display.show(self.line(), last=last)

    def line(self) -> str:
        """Return the line as it would be shown now."""
        now = self._clock()
        made = self._count - self._first
        parts = [self._epoch_text(), self._count_text()]
        if self._after_first is not None and made > 1:
            since, waited = self._after_first
            elapsed = now - since
            if elapsed > 0:
                rate = (made - 1) / elapsed
                parts.append(f"{_rate(rate)} per second")
                parts.append(f"waiting {min(1.0, (self._waited - waited) / elapsed):.0%}")
                if self._total is not None and self._total > self._count:
                    parts.append(f"{_duration((self._total - self._count) / rate)} left")
        if self._ended:
            parts.append(f"took {_duration(now - self._started)}")
        shown = " | ".join(part for part in parts if part)
        return f"{self._description}: {shown}" if self._description else shown

    def _epoch_text(self) -> str:
        finished = self._passes
        if self._epoch_length is not None:
            finished += max(0, self._count - 1) // self._epoch_length
        elif self._epoch is None and not finished:
            return ""
        return f"epoch {finished + (1 if self._epoch is None else self._epoch)}"

    def _count_text(self) -> str:
        if not self._total:
            return f"{self._count:,} elements"
        share = min(1.0, self._count / self._total)
        return f"{self._count:,} of {self._total:,} ({math.floor(100 * share)}%)"


def _length(elements: Any) -> int | None:
    """Return the length, where it is known and finite."""
    try:
        length = length_hint(elements, -1)
    except Exception:  # A length that is only known by reading.
        return None
    return length if 0 <= length < sys.maxsize else None


def _position(iterator: Any) -> int:
    """Return how many elements come before the position of an iterator; 0 where that is unknown."""
    try:
        return int(get_next_index(iterator))
    except Exception:  # Other iterators, and those whose position is only known by reading.
        return 0


def _rate(rate: float) -> str:
    """Return a rate with three digits, or all digits of a large one.

    >>> _rate(73690.2), _rate(0.96385)
    ('73,690', '0.964')
    """
    return f"{rate:,.0f}" if rate >= 100 else f"{rate:.3g}"


def _duration(seconds: float) -> str:
    """Return a duration as a clock shows it.

    >>> _duration(7.2), _duration(3725)
    ('0:07', '1:02:05')
    """
    whole = int(seconds)
    hours, minutes = whole // 3600, whole // 60 % 60
    if hours:
        return f"{hours}:{minutes:02}:{whole % 60:02}"
    return f"{minutes}:{whole % 60:02}"


# Displays


class TerminalDisplay:
    """Rewrites one line of a terminal."""

    def __init__(self, file: Any, interval: float = _TERMINAL_SECONDS):
        self._file = file
        self.interval = interval

    def show(self, line: str, *, last: bool) -> None:
        """Replace the line."""
        width = shutil.get_terminal_size().columns
        if len(line) >= width > 4:
            line = f"{line[: width - 4]}..."
        self._file.write(f"\r{line}\x1b[K" + ("\n" if last else ""))
        self._file.flush()


class LogDisplay:
    """Writes one line after the other."""

    def __init__(self, file: Any, interval: float = _LOG_SECONDS):
        self._file = file
        self.interval = interval

    def show(self, line: str, *, last: bool) -> None:
        """Write the line."""
        del last
        self._file.write(f"{line}\n")
        self._file.flush()


class NotebookDisplay:
    """Updates one output of a notebook's cell.

    Args:
        publish: The function `display` of IPython.
        interval: Seconds between two updates.
    """

    def __init__(self, publish: Callable[..., Any], interval: float = _TERMINAL_SECONDS):
        self._publish = publish
        self._handle: Any = None
        self.interval = interval

    def show(self, line: str, *, last: bool) -> None:
        """Replace the output."""
        content = {"text/plain": line, "text/html": f"<pre>{html.escape(line)}</pre>"}
        if self._handle is None:
            self._handle = self._publish(content, raw=True, display_id=True)
        else:
            self._handle.update(content, raw=True)
        if last:
            self._handle = None


def display_for(file: Any = None, interval: float | None = None) -> Display:
    """Return the display that suits a file, or the standard error."""
    if file is None and (publish := _notebook_display()) is not None:
        return NotebookDisplay(publish, _TERMINAL_SECONDS if interval is None else interval)
    file = sys.stderr if file is None else file
    is_terminal = getattr(file, "isatty", lambda: False)() and os.environ.get("TERM") != "dumb"
    if is_terminal:
        return TerminalDisplay(file, _TERMINAL_SECONDS if interval is None else interval)
    return LogDisplay(file, _LOG_SECONDS if interval is None else interval)


def _notebook_display() -> Callable[..., Any] | None:
    """Return `IPython.display.display` in the kernel of a notebook, else None."""
    ipython: Any = sys.modules.get("IPython")
    shell = ipython.get_ipython() if hasattr(ipython, "get_ipython") else None
    if shell is None or not hasattr(shell, "kernel"):
        return None
    publish: Callable[..., Any] = ipython.display.display
    return publish
