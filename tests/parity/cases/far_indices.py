"""Late epochs of slices of endless datasets, whose indices do not fit into 64 bits."""

from __future__ import annotations

from typing import Any

import grain

from ..registry import stream, value
from .common import INLINE, Map, add_one, index_and_element, is_third, make_pieces, only_draw


class _Parent(grain.MapDataset):
    def __len__(self) -> int:
        return len(self._parent)

    def __getitem__(self, index: Any) -> Any:
        return self.slice(index) if isinstance(index, slice) else self._parent[index]


def _mixture() -> Any:
    parts = [Map.range(5).shuffle(2).repeat(), Map.range(100, 107).repeat()]
    return Map.mix(parts, [0.7, 0.3])


ENDLESS = {
    "range": lambda: Map.range(5).repeat(),
    "shuffle": lambda: Map.range(5).shuffle(1).repeat(),
    "map": lambda: Map.range(5).shuffle(1).map(add_one).repeat(),
    "map_with_index": lambda: Map.range(5).map_with_index(index_and_element).repeat(),
    "random_map": lambda: Map.range(5).random_map(only_draw, seed=1).repeat(),
    "filter": lambda: Map.range(5).filter(is_third).repeat(),
    "mix": _mixture,
    "shuffled_mix": lambda: _mixture().shuffle(3),
    "concatenate": lambda: Map.concatenate([Map.range(5), Map.range(10, 13)]).shuffle(2).repeat(),
    "batch": lambda: Map.range(5).shuffle(2).batch(2).repeat(),
    "batch_of_endless": lambda: Map.range(5).shuffle(1).repeat().batch(2),
    "zip": lambda: grain.experimental.ZipMapDataset(
        [Map.range(5), Map.range(5).shuffle(1)]
    ).repeat(),
    "flat_map": lambda: grain.experimental.FlatMapMapDataset(Map.range(5), make_pieces()).repeat(),
    "slice": lambda: Map.range(10).shuffle(1)[2:8:2].repeat(),
    "same_epochs": lambda: Map.range(5).shuffle(1).repeat(reseed_each_epoch=False),
    "source": lambda: Map.source(list("abcde")).shuffle(4).repeat(),
    "seed": lambda: Map.range(5).seed(3).shuffle().repeat(),
    "user_class": lambda: _Parent(Map.range(5).shuffle(1)).repeat(),
}


@stream(limit=40, steps=(0, 9), over={name: (name,) for name in ENDLESS})
def repeated_slice_of_endless(name: str) -> Any:
    return ENDLESS[name]()[:7].shuffle(1).repeat(2).to_iter_dataset(INLINE)


@stream(limit=40, steps=(9,), over={n: (n,) for n in ENDLESS if n not in ("random_map", "batch")})
def repeated_steps_of_endless(name: str) -> Any:
    return ENDLESS[name]()[1:9:2].repeat(3)[:11].repeat(2).to_iter_dataset(INLINE)


@value(over={name: (name,) for name in ENDLESS if name != "random_map"})
def element_far_beyond_64_bits(name: str) -> Any:
    ds = ENDLESS[name]()
    return [ds[2**70 + 3], ds[2**63], ds[-(2**63) - 1]]
