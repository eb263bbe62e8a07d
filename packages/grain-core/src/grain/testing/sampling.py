"""Samples of long sources: seeded, so that every run reads the same records."""

from __future__ import annotations

import random
from collections.abc import Sequence

MOST_INDICES = 64
"""The number of records that are read of a long map source."""

MOST_STREAM_ELEMENTS = 256
"""The number of elements that are read of a long stream, by an iterator or a loader."""

MOST_STATES = 24
"""The number of states that are restored of a long stream."""

_EDGE = 4
_SEED = 20_260_218


def sample_indices(length: int) -> Sequence[int]:
    """Return all indices of a short source; of a long one both ends and a random choice, sorted.

    Example:
        >>> sample_indices(3)
        range(0, 3)
        >>> sample = sample_indices(10**12)
        >>> len(sample), sample[:4], sample[-1]
        (64, [0, 1, 2, 3], 999999999999)
    """
    if length <= MOST_INDICES:
        return range(length)
    inner = random.Random(_SEED).sample(range(_EDGE, length - _EDGE), MOST_INDICES - 2 * _EDGE)
    return [*range(_EDGE), *sorted(inner), *range(length - _EDGE, length)]


def sample_steps(count: int) -> Sequence[int]:
    """Return all steps below a small count; of a large one an even spread with the last step."""
    if count <= MOST_STATES:
        return range(count)
    return [*range(0, count - 1, -(-count // MOST_STATES)), count - 1]
