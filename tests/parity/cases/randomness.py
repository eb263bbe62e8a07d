"""Random draws: which generator each element gets, on map and iter datasets, over epochs."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..registry import stream, value
from .common import (
    INLINE,
    THREADS,
    AppendDraw,
    Map,
    add_normal,
    append_draw,
    is_even,
    is_third,
    many_draws,
    numbers,
    only_draw,
)


@stream()
def random_map() -> Any:
    return Map.range(20).random_map(append_draw, seed=7).to_iter_dataset(INLINE)


@stream()
def random_map_many() -> Any:
    return Map.range(12).random_map(many_draws, seed=99).to_iter_dataset(INLINE)


@stream()
def random_map_seeded() -> Any:
    ds = Map.range(20).seed(5).shuffle().random_map(append_draw).random_map(add_normal)
    return ds.to_iter_dataset(INLINE)


@stream()
def random_map_epochs() -> Any:
    return Map.range(5).seed(5).shuffle().random_map(append_draw).repeat(3).to_iter_dataset(INLINE)


@stream()
def random_map_iter() -> Any:
    return numbers(20).random_map(append_draw, seed=7)


@stream()
def random_map_after_filter_iter() -> Any:
    return Map.range(30).filter(is_even).to_iter_dataset(INLINE).random_map(append_draw, seed=2)


@stream(over={"zero": (0,), "one": (1,), "largest": (2**32 - 1,), "2_31": (2**31,)})
def random_map_with_seed(seed: int) -> Any:
    return Map.range(6).random_map(many_draws, seed=seed).to_iter_dataset(INLINE)


@stream()
def random_map_by_class() -> Any:
    return Map.range(8).random_map(AppendDraw(), seed=3).to_iter_dataset(INLINE)


@stream()
def random_map_in_threads() -> Any:
    return Map.range(40).shuffle(2).random_map(append_draw, seed=3).to_iter_dataset(THREADS)


@stream()
def random_map_before_shuffle() -> Any:
    return Map.range(9).random_map(append_draw, seed=3).shuffle(4).repeat(2).to_iter_dataset(INLINE)


@stream()
def random_map_before_repeat() -> Any:
    return Map.range(4).random_map(append_draw, seed=3).repeat(3).to_iter_dataset(INLINE)


@stream()
def random_map_before_repeat_without_reseeding() -> Any:
    ds = Map.range(4).random_map(append_draw, seed=3).repeat(3, reseed_each_epoch=False)
    return ds.to_iter_dataset(INLINE)


@stream()
def random_map_after_repeat() -> Any:
    return Map.range(4).shuffle(1).repeat(3).random_map(append_draw, seed=3).to_iter_dataset(INLINE)


@stream()
def random_map_after_repeat_without_reseeding() -> Any:
    ds = Map.range(4).shuffle(1).repeat(3, reseed_each_epoch=False).random_map(append_draw, seed=3)
    return ds.to_iter_dataset(INLINE)


@stream()
def random_map_before_and_after_repeat() -> Any:
    ds = Map.range(4).random_map(append_draw, seed=1).repeat(2).random_map(append_draw, seed=2)
    return ds.repeat(2).to_iter_dataset(INLINE)


@stream()
def random_map_of_slice() -> Any:
    ds = Map.range(20).random_map(append_draw, seed=3)[4:18:3]
    return ds.random_map(append_draw, seed=9).repeat(2).to_iter_dataset(INLINE)


@stream()
def random_map_of_concatenation() -> Any:
    parts = [
        Map.range(3).random_map(append_draw, seed=1),
        Map.range(10, 13).random_map(append_draw, seed=1),
    ]
    return Map.concatenate(parts).random_map(append_draw, seed=1).repeat(2).to_iter_dataset(INLINE)


@stream()
def random_map_after_filter_map() -> Any:
    return Map.range(20).filter(is_third).random_map(append_draw, seed=4).to_iter_dataset(INLINE)


@stream()
def random_map_of_batch() -> Any:
    def jitter(batch: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        return batch * 1000 + rng.integers(0, 1000, size=batch.shape)

    return Map.range(10).batch(4).random_map(jitter, seed=2).repeat(2).to_iter_dataset(INLINE)


@stream()
def random_map_several_on_iter() -> Any:
    ds = numbers(12).random_map(append_draw, seed=1).filter(is_even)
    return ds.random_map(append_draw, seed=1).random_map(append_draw, seed=2)


@stream()
def random_map_iter_after_filter_iter() -> Any:
    return numbers(30).filter(is_third).random_map(append_draw, seed=2)


@stream()
def random_map_iter_after_batch() -> Any:
    def jitter(batch: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        return batch + rng.integers(0, 1000, size=batch.shape)

    return numbers(10).batch(3).random_map(jitter, seed=2)


@stream()
def random_map_by_class_iter() -> Any:
    return numbers(8).random_map(AppendDraw(), seed=3)


@stream(over={"shuffle_permutation": (0,), "choice": (1,), "normal_array": (2,), "bytes": (3,)})
def random_map_kinds_of_draw(which: int) -> Any:
    draws = (
        lambda x, rng: rng.permutation(5),
        lambda x, rng: rng.choice(100, size=3, replace=False),
        lambda x, rng: rng.normal(size=(2, 2)).astype(np.float32),
        lambda x, rng: rng.bytes(5),
    )
    return Map.range(4).random_map(draws[which], seed=8).repeat(2).to_iter_dataset(INLINE)


@value
def random_map_far_index() -> Any:
    ds = Map.range(10).random_map(only_draw, seed=11)
    return [ds[i] for i in (2**31, 2**32, 2**40 + 1, 10**15)]


@value
def random_map_reads_are_independent_of_order() -> Any:
    ds = Map.range(10).random_map(only_draw, seed=11)
    return [ds[i] for i in (5, 3, 5, 0, 3)]
