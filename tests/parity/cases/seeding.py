"""Default seeds: what `seed()` upstream gives each random operation, through trees of datasets."""

from __future__ import annotations

from typing import Any

import grain

from ..registry import stream, value
from .common import INLINE, Iter, Map, add_one, append_draw, is_even, numbers, only_draw


def _draws(ds: Any) -> list[int]:
    return list(ds.random_map(only_draw))


@value(over={str(seed): (seed,) for seed in (0, 1, 42, 2**31, 2**32 - 1)})
def seed_gives_draws(seed: int) -> Any:
    return _draws(Map.range(4).seed(seed))


@value
def seed_by_depth() -> Any:
    ds = Map.range(3).seed(9)
    found = []
    for _ in range(4):
        found.append(_draws(ds))
        ds = ds.map(add_one)
    return found


@value
def seed_on_each_kind_of_node() -> Any:
    seeded = Map.range(6).seed(9)
    return [
        _draws(seeded.shuffle()),
        _draws(seeded[1:5]),
        _draws(seeded.repeat(1)),
        _draws(seeded.filter(is_even)),
        _draws(seeded.batch(2)),
        _draws(seeded.to_iter_dataset(INLINE)),
        _draws(seeded.to_iter_dataset(INLINE).filter(is_even)),
        _draws(seeded.to_iter_dataset(INLINE).batch(2)),
    ]


@value
def seed_nearest_wins() -> Any:
    return _draws(Map.range(4).seed(1).map(add_one).seed(2).map(add_one))


@value
def seed_twice_in_a_row() -> Any:
    return _draws(Map.range(4).seed(1).seed(2))


@value
def seed_and_explicit_seed() -> Any:
    return list(Map.range(4).seed(1).random_map(only_draw, seed=7))


@value
def seed_explicit_elsewhere_changes_nothing() -> Any:
    return _draws(Map.range(4).seed(1).shuffle(99))


@stream()
def seed_two_shuffles_differ() -> Any:
    return Map.range(12).seed(3).shuffle().shuffle().repeat(2).to_iter_dataset(INLINE)


@stream()
def seed_through_mix_of_seeded() -> Any:
    parts = [Map.range(8).seed(1).shuffle(), Map.range(100, 108).seed(2).shuffle()]
    return Map.mix(parts).shuffle().random_map(append_draw).repeat(2).to_iter_dataset(INLINE)


@stream()
def seed_through_mix_one_side_only() -> Any:
    parts = [Map.range(8).seed(1).shuffle(), Map.range(100, 108)]
    return Map.mix(parts, [1, 2]).random_map(append_draw).to_iter_dataset(INLINE)


@stream()
def seed_through_concatenation() -> Any:
    parts = [Map.range(4).seed(1), Map.range(10, 14).seed(2).map(add_one), Map.range(20, 22)]
    return Map.concatenate(parts).shuffle().random_map(append_draw).to_iter_dataset(INLINE)


@stream()
def seed_through_tree_of_unequal_depth() -> Any:
    deep = Map.range(5).seed(4).map(add_one).map(add_one).shuffle()
    inner = Map.mix([deep, Map.range(50, 55).seed(5)])
    outer = Map.concatenate([inner, Map.range(90, 95).seed(6).shuffle()])
    return outer.map(add_one).random_map(append_draw).to_iter_dataset(INLINE)


@stream()
def seed_same_parent_twice() -> Any:
    shared = Map.range(5).seed(4).shuffle()
    return (
        Map.concatenate([shared, shared.map(add_one)])
        .random_map(append_draw)
        .to_iter_dataset(INLINE)
    )


@stream(needs="ZipMapDataset")
def seed_through_zip() -> Any:
    zipped = grain.experimental.ZipMapDataset(
        [Map.range(4).seed(1).shuffle(), Map.range(10, 14).seed(2)]
    )
    return zipped.shuffle().map(sum).random_map(append_draw).to_iter_dataset(INLINE)


@stream()
def seed_over_a_mix() -> Any:
    mixed = Map.mix([Map.range(5), Map.range(10, 15)]).seed(8)
    return mixed.shuffle().random_map(append_draw).to_iter_dataset(INLINE)


@stream()
def seed_on_iter_dataset() -> Any:
    return numbers(6).seed(5).random_map(append_draw).map(add_one).random_map(append_draw)


@stream()
def seed_across_the_iter_boundary() -> Any:
    ds = Map.range(6).seed(5).shuffle().to_iter_dataset(INLINE)
    return ds.random_map(append_draw).filter(is_even).random_map(append_draw)


@stream()
def seed_through_iter_mix() -> Any:
    parts = [
        Map.range(6).seed(1).shuffle().to_iter_dataset(INLINE),
        Map.range(50, 56).to_iter_dataset(INLINE).seed(2).random_map(append_draw),
    ]
    return Iter.mix(parts, [1, 1]).random_map(append_draw)


@stream()
def seed_through_named_iter_mix() -> Any:
    parts = {
        "b": Map.range(6).seed(1).shuffle().to_iter_dataset(INLINE),
        "a": Map.range(50, 56).seed(2).shuffle().to_iter_dataset(INLINE),
    }
    return Iter.mix(parts).random_map(append_draw)
