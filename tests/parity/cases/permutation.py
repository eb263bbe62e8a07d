"""`index_shuffle`, the permutation under every shuffle, at the borders of its block widths."""

from __future__ import annotations

from typing import Any

import grain

from ..registry import value

_LARGEST_INDICES = (
    0,
    1,
    2,
    9,
    255,
    256,
    65534,
    65535,
    65537,
    70000,
    10**6,
    2**24 - 2,
    2**31,
    2**32 - 2,
    2**40,
    10**12 + 7,
    2**62 - 1,
)
_SEEDS = (0, 1, 42, 2**32 - 1)
_ROUNDS = (4, 8)


@value(
    needs="index_shuffle",
    over={
        f"{last}_{seed}_{rounds}": (last, seed, rounds)
        for last in _LARGEST_INDICES
        for seed in _SEEDS
        for rounds in _ROUNDS
    },
)
def index_shuffle(last: int, seed: int, rounds: int) -> Any:
    places = {0, 1, last // 3, last // 2, last - 1, last}
    shuffle = grain.experimental.index_shuffle
    return [
        [place, int(shuffle(place, max_index=last, seed=seed, rounds=rounds))]
        for place in sorted(places)
        if 0 <= place <= last
    ]


@value(needs="index_shuffle", over={str(rounds): (rounds,) for rounds in (4, 6, 10, 16)})
def index_shuffle_whole_with_rounds(rounds: int) -> Any:
    shuffle = grain.experimental.index_shuffle
    return [int(shuffle(i, max_index=29, seed=5, rounds=rounds)) for i in range(30)]
