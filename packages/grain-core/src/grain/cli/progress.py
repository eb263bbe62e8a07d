"""Progress line of a command: on terminals only, cleared at the end."""

from __future__ import annotations

import os
import sys
import time
from types import TracebackType
from typing import TextIO

_REDRAW_SECONDS = 0.1
_BAR = 24
# Return to the first column and clear the line.
_CLEAR = "\r\x1b[K"


class Progress:
    """Counter with an optional total, shown on stderr if that is a terminal."""

    def __init__(self, label: str, total: int | None = None, stream: TextIO | None = None) -> None:
        self._label = label
        self._total = total
        self._stream = sys.stderr if stream is None else stream
        self._shown = self._stream.isatty()
        self._done = 0
        self._started = self._last = time.monotonic()

    def advance(self, count: int = 1) -> None:
        """Add to the count; cheap enough to call per element."""
        self._done += count
        if self._shown:
            now = time.monotonic()
            if now - self._last >= _REDRAW_SECONDS:
                self._last = now
                self._draw(self.line(self._done, now - self._started))

    def say(self, text: str) -> None:
        """Show a text instead of the count."""
        if self._shown:
            self._draw(f"{self._label}: {text}")

    def line(self, done: int, seconds: float) -> str:
        """Return the text of the line.

        Example:
            >>> Progress("copying", 200).line(50, 2.0)
            'copying [######                  ]  25%  50 of 200  25/s  6 s left'
        """
        rate = done / seconds if seconds > 0 else 0.0
        speed = f"{rate:,.0f}/s"
        if not self._total:
            return f"{self._label} {done:,}  {speed}" if done else f"{self._label} …"
        fraction = min(1.0, done / self._total)
        bar = ("#" * int(_BAR * fraction)).ljust(_BAR)
        left = f"  {(self._total - done) / rate:.0f} s left" if rate else ""
        return f"{self._label} [{bar}] {fraction:4.0%}  {done:,} of {self._total:,}  {speed}{left}"

    def _draw(self, text: str) -> None:
        try:
            width = os.get_terminal_size(self._stream.fileno()).columns
        except (OSError, ValueError):
            width = 80
        # A wrapped line cannot be cleared.
        self._stream.write(_CLEAR + text[: max(1, width - 1)])
        self._stream.flush()

    def __enter__(self) -> Progress:
        if self._shown:
            self._draw(self.line(0, 0.0))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        if self._shown:
            self._stream.write(_CLEAR)
            self._stream.flush()
