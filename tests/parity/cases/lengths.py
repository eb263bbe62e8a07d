"""`len()` of everything that has one, and the parents each dataset names."""

from __future__ import annotations

from typing import Any

import grain

from ..registry import value
from .common import (
    INLINE,
    Iter,
    Map,
    add_one,
    append_draw,
    index_and_element,
    is_even,
    make_pieces,
    numbers,
)


@value
def length_of_ranges() -> Any:
    bounds = [
        (0,),
        (1,),
        (10,),
        (3, 10),
        (10, 3),
        (0, 10, 3),
        (10, 0, -3),
        (0, 10, -1),
        (-5, 5),
        (-3,),
    ]
    return [len(Map.range(*b)) for b in bounds]


@value
def length_of_sources() -> Any:
    return [
        len(Map.source(s))
        for s in ([], [1], "abc", (1, 2), grain.sources.RangeDataSource(0, 10, 3))
    ]


@value
def length_of_one_to_one_operations() -> Any:
    ds = Map.range(7)
    same = [
        ds.map(add_one),
        ds.shuffle(1),
        ds.seed(1),
        ds.filter(is_even),
        ds.random_map(append_draw, seed=1),
        ds.map_with_index(index_and_element),
    ]
    return [len(x) for x in same]


@value
def length_of_batches() -> Any:
    return [
        len(Map.range(n).batch(size, drop_remainder=drop))
        for n in (0, 1, 3, 4, 5, 8, 9)
        for size in (1, 2, 4)
        for drop in (False, True)
    ]


@value
def length_of_repeats() -> Any:
    ds = Map.range(7)
    return [
        len(ds.repeat(1)),
        len(ds.repeat(3)),
        len(ds.repeat()),
        len(ds.repeat(2).repeat(3)),
        len(ds.repeat(2).batch(4)),
    ]


@value
def length_of_empty_repeats() -> Any:
    return [len(Map.range(0).repeat(3)), len(Map.range(0).repeat())]


@value
def length_of_operations_on_endless() -> Any:
    ds = Map.range(7).repeat()
    return [
        len(ds.map(add_one)),
        len(ds.batch(4)),
        len(ds.batch(4, drop_remainder=True)),
        len(ds[2::3]),
        len(ds[:100]),
    ]


@value
def length_of_slices() -> Any:
    ds = Map.range(10)
    slices = [
        slice(None),
        slice(3),
        slice(3, None),
        slice(None, None, 3),
        slice(1, None, 3),
        slice(-3, None),
        slice(None, None, -1),
        slice(8, 2, -2),
        slice(5, 5),
        slice(20, 30),
        slice(-100, 100),
    ]
    return [len(ds[sl]) for sl in slices]


@value
def length_of_concatenations() -> Any:
    parts = [Map.range(3), Map.range(0), Map.range(4).repeat(2)]
    return [len(Map.concatenate(parts[:k])) for k in (1, 2, 3)]


@value
def length_of_mixes() -> Any:
    cases = [
        ((10, 10), [1, 1]),
        ((10, 5), [2, 1]),
        ((10, 10), [0.999, 0.001]),
        ((1000, 10), [0.999, 0.001]),
        ((3, 100), [0.3, 0.7]),
        ((7, 7, 7), None),
        ((10**12, 10**12), [0.3, 0.7]),
    ]
    return [len(Map.mix([Map.range(n) for n in lengths], weights)) for lengths, weights in cases]


@value
def length_of_endless_mixes() -> Any:
    endless = Map.range(3).repeat()
    return [
        len(Map.mix([endless, endless])),
        len(Map.mix([endless, endless], [1, 3])),
        len(Map.mix([endless, Map.range(2)], [1, 3])),
    ]


@value(needs="FlatMapMapDataset")
def length_of_flat_map() -> Any:
    return len(grain.experimental.FlatMapMapDataset(Map.range(5), make_pieces()))


@value(needs="ZipMapDataset")
def length_of_zip() -> Any:
    return len(grain.experimental.ZipMapDataset([Map.range(5), Map.range(10, 15)]))


@value(needs="WindowShuffleMapDataset")
def length_of_window_shuffle() -> Any:
    return len(grain.experimental.WindowShuffleMapDataset(Map.range(5), window_size=2, seed=1))


@value
def truth_of_datasets() -> Any:
    return [bool(Map.range(3)), bool(Map.range(0))]


@value
def parents_of_datasets() -> Any:
    ds = Map.range(3)
    mixed = Map.mix([ds, ds.map(add_one)])
    joined = Iter.mix([numbers(2), numbers(3)])
    counts = [
        len(x.parents) for x in (ds, ds.map(add_one), mixed, ds.to_iter_dataset(INLINE), joined)
    ]
    return [counts, mixed.parents[0] is ds, type(mixed.parents).__name__]
