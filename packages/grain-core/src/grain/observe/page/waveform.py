"""Signals, such as audio, as a small drawing of their envelope."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from grain.observe.page.markup import Markup, tag

# Fewer values are shown as numbers.
_LEAST_VALUES = 256
_MOST_CHANNELS = 2
_COLUMNS = 240
_HEIGHT = 48
# Values of each column that are read, so that the cost of a long signal is bounded.
_VALUES_PER_COLUMN = 512


def signals(array: NDArray[Any]) -> list[NDArray[Any]]:
    """Return the channels of an array that looks like a signal, else none.

    >>> [len(signals(np.zeros(shape, np.float32))) for shape in ((16000,), (16000, 2), (4, 4))]
    [1, 2, 0]
    """
    if array.dtype.kind != "f" and array.dtype != np.int16:
        return []
    if array.ndim == 1 and array.size >= _LEAST_VALUES:
        return [array]
    if array.ndim != 2 or min(array.shape) == 0 or max(array.shape) < 4 * _LEAST_VALUES:
        return []
    if array.shape[1] <= _MOST_CHANNELS:
        return list(array.T)
    if array.shape[1] >= 16 * array.shape[0] or array.shape[0] <= _MOST_CHANNELS:
        return list(array[:_MOST_CHANNELS])  # Channels, or a batch of signals.
    return []


def waveform(signal: NDArray[Any]) -> Markup:
    """Return a drawing of the least and greatest values of a signal along its length."""
    step = max(1, signal.size // (_COLUMNS * _VALUES_PER_COLUMN))
    values = signal[::step].astype(np.float64)
    finite = np.isfinite(values)
    values = np.where(finite, values, 0.0)
    edges = np.linspace(0, values.size, min(_COLUMNS, values.size) + 1).astype(int)
    low = np.minimum.reduceat(values, edges[:-1])
    high = np.maximum.reduceat(values, edges[:-1])
    # With values of both signs, zero is in the middle.
    least, greatest = float(low.min()), float(high.max())
    if least < 0 < greatest:
        greatest = max(greatest, -least)
        least = -greatest
    span = (greatest - least) or 1.0
    with np.errstate(all="ignore"):
        top = (_HEIGHT - 2) * (1 - (high - least) / span) + 0.6
        bottom = (_HEIGHT - 2) * (1 - (low - least) / span) + 1.4
    x = np.linspace(0, _COLUMNS, top.size)
    points = [f"{a:.1f},{b:.1f}" for a, b in zip(x, top, strict=True)]
    points += [f"{a:.1f},{b:.1f}" for a, b in zip(x[::-1], bottom[::-1], strict=True)]
    note = f"Signal of {signal.size:,} values from {low.min():.4g} to {high.max():.4g}"
    if not finite.all():
        note += f"; {int((~finite).sum()):,} not finite"
    return tag(
        "svg",
        tag("polygon", points=" ".join(points)),
        class_="wave",
        viewBox=f"0 0 {_COLUMNS} {_HEIGHT}",
        preserveAspectRatio="none",
        role="img",
        aria_label=note,
    )
