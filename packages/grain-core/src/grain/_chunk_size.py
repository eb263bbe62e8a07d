"""The controller that sizes chunks and blocks by how long they take."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

# Below this, a time is dominated by the clock.
_SHORTEST = 1e-7


def chunk_size_for(seconds: float, seconds_per_element: float) -> int:
    """Return how many elements take about `seconds`."""
    return int(seconds / max(seconds_per_element, _SHORTEST))


class ChunkSizeController:
    """Number of elements for which one call should take about a given time.

    `observe` suits a consumer that times whole chunks: the size grows towards the time, by doubling at most,
    while chunks are quick, and halves when they are slow, so that one delayed chunk costs little. `fit` suits
    a producer that times each element: the size follows the time per element, grows by doubling at most, and
    shrinks for two slow calls in a row, not for one that another process delayed. Short chunks at first
    reach full speed soon; with `growth`, those of a producer that lasts become longer, so that there are
    fewer of them to handle.

    Args:
        seconds: Time that a chunk should take.
        maximum: Most elements of a chunk.
        max_bytes: Most bytes of a chunk of more than one element; None is no limit.
        nbytes: Function that measures an element, for `observe`; called only before the size grows.
        growth: Factor by which the time of a chunk grows in all, for `fit`.
        growth_calls: Calls of `fit` after which it has grown by this factor.

    Attributes:
        size: Elements to ask for next.

    >>> size = ChunkSizeController(seconds=0.001, maximum=1024)
    >>> size.observe([7], 0.0001)
    >>> size.size
    2
    >>> size.observe([7, 8], 0.005)
    >>> size.size
    1
    """

    __slots__ = (
        "_growing_calls",
        "_growth_step",
        "_last",
        "_max_bytes",
        "_maximum",
        "_nbytes",
        "_seconds",
        "size",
    )

    def __init__(
        self,
        seconds: float,
        maximum: int,
        max_bytes: int | None = None,
        nbytes: Callable[[Any], int] | None = None,
        *,
        growth: float = 1.0,
        growth_calls: int = 0,
    ):
        self.size = 1
        self._seconds = seconds
        self._maximum = maximum
        self._max_bytes = max_bytes
        self._nbytes = nbytes
        self._growing_calls = growth_calls
        self._growth_step = seconds * (growth - 1) / max(1, growth_calls)
        # Time per element of the call before; infinite before the first.
        self._last = float("inf")

    def observe(self, elements: Sequence[Any], seconds: float) -> None:
        """Adapt to a chunk and the time it took; a chunk shorter than `size` never grows it."""
        if seconds > 4 * self._seconds:
            self.size = max(1, self.size // 2)
        elif seconds < self._seconds and len(elements) >= self.size < self._maximum:
            fitting = self.size * self._seconds / max(seconds, _SHORTEST)
            larger = min(int(fitting), 2 * self.size, self._maximum)
            if (
                self._max_bytes is None
                or self._nbytes is None
                or larger * self._nbytes(elements[-1]) <= self._max_bytes
            ):
                self.size = larger

    def fit(
        self, seconds: float, element_bytes: int = 0, *, at_least: int = 1, allowance: int = 1
    ) -> None:
        """Adapt to the time and size of one element.

        Args:
            seconds: Time per element.
            element_bytes: Size of an element.
            at_least: Elements wanted whatever their time.
            allowance: Elements allowed whatever their size.
        """
        if self._growing_calls:
            self._growing_calls -= 1
            self._seconds += self._growth_step
        quicker, self._last = min(seconds, self._last), seconds
        wanted = max(chunk_size_for(self._seconds, quicker), at_least)
        allowed = self._maximum
        if self._max_bytes is not None:
            allowed = min(allowed, max(allowance, self._max_bytes // max(1, element_bytes)))
        self.size = max(1, min(wanted, allowed, 2 * self.size))
