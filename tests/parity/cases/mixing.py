"""Several parents: mix, `select_from_datasets`, iter mixes; lengths, states and endings."""

from __future__ import annotations

from typing import Any

import numpy as np

import grain

from ..registry import stream, value
from .common import INLINE, Iter, Map, append_draw, is_even, is_third, numbers


@stream()
def mix() -> Any:
    parts = [Map.range(10), Map.range(100, 110), Map.range(200, 220)]
    return Map.mix(parts, [0.5, 0.3, 0.2]).to_iter_dataset(INLINE)


@stream()
def mix_uniform() -> Any:
    return Map.mix([Map.range(5), Map.range(5, 8)]).to_iter_dataset(INLINE)


@stream()
def mix_seeded() -> Any:
    parts = [Map.range(10).seed(1).shuffle(), Map.range(50, 60).seed(2).shuffle()]
    return Map.mix(parts, [2, 1]).random_map(append_draw).to_iter_dataset(INLINE)


@stream()
def mix_iter() -> Any:
    return Iter.mix(
        [numbers(10), Map.range(50, 70).filter(is_even).to_iter_dataset(INLINE)], [1, 2]
    )


@stream()
def mix_iter_named() -> Any:
    return Iter.mix({"z": numbers(10), "a": numbers(50, 70)}, {"z": 3, "a": 1})


@stream()
def concatenate() -> Any:
    parts = [Map.range(3).shuffle(1), Map.range(10, 14), Map.range(20, 22)]
    return Map.concatenate(parts).repeat(2).to_iter_dataset(INLINE)


_WEIGHTS: dict[str, tuple[list[int], list[float] | None]] = {
    "one_part": ([5], None),
    "one_part_weighted": ([5], [0.25]),
    "thirds": ([9, 9, 9], [1 / 3, 1 / 3, 1 / 3]),
    "seven_to_three": ([30, 30], [0.7, 0.3]),
    "integers": ([20, 20, 20], [5, 3, 2]),
    "not_summing_to_one": ([20, 20], [0.2, 0.6]),
    "unequal_lengths": ([3, 50, 7], [0.2, 0.5, 0.3]),
    "short_part_ends_it": ([100, 2], [0.5, 0.5]),
    "rare_part": ([2500, 3], [0.999, 0.001]),
    "rare_part_first": ([3, 2500], [0.001, 0.999]),
    "two_rare_parts": ([40, 4000, 40], [0.01, 0.98, 0.01]),
    "irrational": ([40, 40, 40], [2**0.5, 3**0.5, 5**0.5]),
    "many_parts": ([4] * 7, None),
    "tiny_length": ([1, 1], [0.9, 0.1]),
    "just_too_short": ([3, 100], [0.3, 0.7]),
}


def _parts(lengths: list[int]) -> list[grain.MapDataset]:
    return [Map.range(10_000 * i, 10_000 * i + n) for i, n in enumerate(lengths)]


@stream(limit=60, over=_WEIGHTS)
def mix_with_weights(lengths: list[int], weights: list[float] | None) -> Any:
    return Map.mix(_parts(lengths), weights).to_iter_dataset(INLINE)


@value(over=_WEIGHTS)
def mix_length_and_far_reads(lengths: list[int], weights: list[float] | None) -> Any:
    ds = Map.mix(_parts(lengths), weights)
    last = len(ds)
    places = [0, last // 2, last - 1, last, last + 1, 2 * last + 3, 1000, 10**6]
    return [last, [ds[place] for place in places]]


@stream(limit=60, over=_WEIGHTS)
def mix_iter_with_weights(lengths: list[int], weights: list[float] | None) -> Any:
    return Iter.mix([part.to_iter_dataset(INLINE) for part in _parts(lengths)], weights)


@stream(limit=40)
def mix_rare_part_comes_when_due() -> Any:
    return Map.mix(_parts([3000, 3]), [0.999, 0.001])[985:1015].to_iter_dataset(INLINE)


@stream(limit=60)
def mix_over_epochs() -> Any:
    parts = [Map.range(5).shuffle(1), Map.range(100, 103).shuffle(2)]
    return Map.mix(parts, [0.6, 0.4]).repeat(3).to_iter_dataset(INLINE)


@stream(limit=60)
def mix_over_epochs_without_reseeding() -> Any:
    parts = [Map.range(5).shuffle(1), Map.range(100, 103).shuffle(2)]
    return Map.mix(parts, [0.6, 0.4]).repeat(2, reseed_each_epoch=False).to_iter_dataset(INLINE)


@stream(limit=40)
def mix_of_endless() -> Any:
    parts = [Map.range(5).shuffle(1).repeat(), Map.range(100, 103).shuffle(2).repeat()]
    return Map.mix(parts, [0.75, 0.25]).to_iter_dataset(INLINE)


@stream(limit=40)
def mix_of_endless_and_finite() -> Any:
    parts = [Map.range(5).shuffle(1).repeat(), Map.range(100, 103)]
    return Map.mix(parts, [3, 1]).to_iter_dataset(INLINE)


@stream(limit=60)
def mix_shuffled_after() -> Any:
    return Map.mix(_parts([6, 6])).shuffle(4).repeat(2).to_iter_dataset(INLINE)


@stream(limit=60)
def mix_sliced_after() -> Any:
    return Map.mix(_parts([12, 12]), [2, 1])[1::3].repeat(2).to_iter_dataset(INLINE)


@stream(limit=60)
def mix_of_mixes() -> Any:
    inner = Map.mix(_parts([6, 6]), [2, 1])
    return Map.mix([inner, Map.range(90, 99)], [1, 1]).repeat(2).to_iter_dataset(INLINE)


@stream(limit=60)
def mix_of_filtered() -> Any:
    parts = [Map.range(12).filter(is_third), Map.range(100, 112)]
    return Map.mix(parts).to_iter_dataset(INLINE)


@stream(limit=60)
def mix_batched_after() -> Any:
    return Map.mix(_parts([9, 9]), [2, 1]).batch(4).repeat(2).to_iter_dataset(INLINE)


class _BlackAndWhite(grain.transforms.DatasetSelectionMap):
    """Two from the first, one from the second, counting each apart."""

    def __len__(self) -> int:
        return 9

    def __getitem__(self, index: int) -> tuple[int, int]:
        turn, place = divmod(index, 3)
        return (1, turn) if place == 2 else (0, 2 * turn + place)


class _Backwards(grain.transforms.DatasetSelectionMap):
    def __len__(self) -> int:
        return 5

    def __getitem__(self, index: int) -> tuple[int, int]:
        return index % 2, 4 - index


@stream(limit=40)
def select_from_datasets() -> Any:
    parts = [Map.range(6).shuffle(1), Map.range(100, 103)]
    return Map.select_from_datasets(parts, _BlackAndWhite()).to_iter_dataset(INLINE)


@stream(limit=40)
def select_from_datasets_over_epochs() -> Any:
    parts = [Map.range(6).shuffle(1), Map.range(100, 103).shuffle(2)]
    return Map.select_from_datasets(parts, _BlackAndWhite()).repeat(2).to_iter_dataset(INLINE)


@value
def select_from_datasets_reads() -> Any:
    ds = Map.select_from_datasets([Map.range(6), Map.range(100, 106)], _Backwards())
    return [len(ds), [ds[i] for i in (0, 1, 4)]]


@value
def select_from_datasets_picks_are_ints() -> Any:
    picks = [_BlackAndWhite()[np.int64(i)] for i in range(3)]
    return [[int(which), int(place)] for which, place in picks]


@stream(steps=(0, 1, 3, 4, 5, 6))
def mix_iter_ends_with_its_shortest() -> Any:
    return Iter.mix([numbers(3), numbers(100, 200)])


@stream(steps=(0, 1, 6, 12))
def mix_iter_of_filtered() -> Any:
    return Iter.mix([numbers(20).filter(is_third), numbers(100, 140).filter(is_even)], [0.4, 0.6])


@stream(steps=(0, 2))
def mix_iter_with_an_empty_part() -> Any:
    return Iter.mix([numbers(5), numbers(0)])


@stream(steps=(0, 1, 7))
def mix_iter_of_iter_mixes() -> Any:
    inner = Iter.mix([numbers(8), numbers(100, 108)], [2, 1])
    return Iter.mix([inner, numbers(200, 220)], [1, 2])


@stream(steps=(0, 1, 2))
def mix_iter_batched_after() -> Any:
    return Iter.mix([numbers(9), numbers(100, 109)], [2, 1]).batch(4)


@stream(steps=(0, 1, 5))
def mix_iter_named_without_weights() -> Any:
    return Iter.mix({"second": numbers(50, 60), "first": numbers(10)})


@stream(steps=(0, 1, 5))
def mix_iter_of_map_datasets() -> Any:
    return Iter.mix([Map.range(5).shuffle(1), Map.range(10, 20)])


@value
def mix_iter_state_after_the_end() -> Any:
    iterator = iter(Iter.mix([numbers(2), numbers(10, 20)]))
    elements = list(iterator)
    return [elements, iterator.get_state(), list(iterator)]


@value
def mix_iter_resumed_at_the_end() -> Any:
    iterator = iter(Iter.mix([numbers(2), numbers(10, 20)]))
    list(iterator)
    state = iterator.get_state()
    fresh = iter(Iter.mix([numbers(2), numbers(10, 20)]))
    fresh.set_state(state)
    return list(fresh)
