"""The classes of `grain.experimental`, from window shuffle to packing."""

from __future__ import annotations

from typing import Any

import numpy as np

import grain

from ..registry import stream, value
from .common import (
    INLINE,
    THREADS,
    Map,
    add_one,
    append_draw,
    as_tree,
    is_even,
    is_third,
    make_pieces,
    numbers,
)

ex = grain.experimental


@stream(limit=60, needs="WindowShuffleMapDataset")
def window_shuffle_map() -> Any:
    return ex.WindowShuffleMapDataset(Map.range(40), window_size=8, seed=4).to_iter_dataset(INLINE)


@stream(limit=60, steps=(0, 1, 5, 11), needs="WindowShuffleIterDataset")
def window_shuffle_iter() -> Any:
    return ex.WindowShuffleIterDataset(numbers(43), window_size=8, seed=4)


@stream(
    limit=60,
    needs="WindowShuffleMapDataset",
    over={"1": (1,), "uneven": (7,), "longer_than_data": (100,)},
)
def window_shuffle_map_with_window(size: int) -> Any:
    ds = ex.WindowShuffleMapDataset(Map.range(20), window_size=size, seed=2)
    return ds.repeat(2).to_iter_dataset(INLINE)


@stream(
    limit=60,
    steps=(0, 1, 7, 20),
    needs="WindowShuffleIterDataset",
    over={"1": (1,), "uneven": (7,), "longer_than_data": (100,)},
)
def window_shuffle_iter_with_window(size: int) -> Any:
    return ex.WindowShuffleIterDataset(numbers(20), window_size=size, seed=2)


@stream(limit=60, steps=(0, 3, 9), needs="WindowShuffleIterDataset")
def window_shuffle_iter_after_filter() -> Any:
    return ex.WindowShuffleIterDataset(numbers(60).filter(is_third), window_size=4, seed=2).map(
        add_one
    )


@stream(limit=20, steps=(0, 1, 2), needs="RebatchIterDataset")
def rebatch() -> Any:
    return ex.RebatchIterDataset(Map.range(20).batch(6).to_iter_dataset(INLINE), batch_size=4)


@stream(
    limit=20,
    steps=(0, 1, 2, 3),
    needs="RebatchIterDataset",
    over={str(n): (n,) for n in (1, 3, 5, 7, 50)},
)
def rebatch_to(size: int) -> Any:
    return ex.RebatchIterDataset(
        Map.range(20).map(as_tree).batch(3).to_iter_dataset(INLINE), batch_size=size
    )


@stream(limit=20, steps=(0, 1, 2), needs="RebatchIterDataset")
def rebatch_drop_remainder() -> Any:
    batches = Map.range(20).batch(6).to_iter_dataset(INLINE)
    return ex.RebatchIterDataset(batches, batch_size=7, drop_remainder=True)


@stream(needs="ZipMapDataset")
def zip_map() -> Any:
    return ex.ZipMapDataset([Map.range(6), Map.range(10, 16).shuffle(4)]).to_iter_dataset(INLINE)


@stream(needs="ZipMapDataset")
def zip_map_over_epochs() -> Any:
    zipped = ex.ZipMapDataset([Map.range(4).shuffle(1), Map.range(10, 14).shuffle(4)])
    return zipped.shuffle(2).repeat(2).to_iter_dataset(INLINE)


@stream(needs="ZipIterDataset")
def zip_iter() -> Any:
    return ex.ZipIterDataset([numbers(6), numbers(10, 16)])


@stream(needs="ZipIterDataset")
def zip_iter_not_strict() -> Any:
    return ex.ZipIterDataset([numbers(6), numbers(10, 14)], strict=False)


@stream(limit=60, steps=(0, 1, 4, 9), needs="InterleaveIterDataset")
def interleave() -> Any:
    files = [Map.range(i * 10, i * 10 + i + 2) for i in range(5)]
    return ex.InterleaveIterDataset(files, cycle_length=3)


@stream(
    limit=60,
    steps=(0, 1, 4, 9),
    needs="InterleaveIterDataset",
    over={"1": (1,), "2": (2,), "as_many_as_files": (5,), "more_than_files": (9,)},
)
def interleave_with_cycle(length: int) -> Any:
    files = [Map.range(i * 10, i * 10 + 5 - i).to_iter_dataset(INLINE) for i in range(5)]
    return ex.InterleaveIterDataset(files, cycle_length=length)


@stream(needs="LimitIterDataset")
def limit() -> Any:
    return ex.LimitIterDataset(numbers(20), 6)


@stream(needs="LimitIterDataset")
def limit_past_the_end() -> Any:
    return ex.LimitIterDataset(numbers(20).filter(is_third), 100)


@stream(limit=20, steps=(0, 1, 3), needs="RepeatIterDataset")
def repeat_iter() -> Any:
    return ex.RepeatIterDataset(Map.range(4).filter(is_even).to_iter_dataset(INLINE), 3)


@stream(limit=20, steps=(0, 1, 9), needs="RepeatIterDataset")
def repeat_iter_without_end() -> Any:
    return ex.RepeatIterDataset(numbers(4).random_map(append_draw, seed=1))


@stream(limit=20, steps=(0, 1), needs=("RepeatIterDataset", "CacheIterDataset"))
def cache_iter() -> Any:
    return ex.RepeatIterDataset(ex.CacheIterDataset(numbers(5)), 2)


@stream(limit=60, needs=("FlatMapTransform", "FlatMapMapDataset"))
def flatmap_map() -> Any:
    return ex.FlatMapMapDataset(Map.range(9), make_pieces()).to_iter_dataset(INLINE)


@stream(limit=60, needs=("FlatMapTransform", "FlatMapIterDataset"))
def flatmap_iter() -> Any:
    return ex.FlatMapIterDataset(numbers(9), make_pieces())


@stream(limit=60, needs=("FlatMapTransform", "FlatMapMapDataset"))
def flatmap_map_shuffled_over_epochs() -> Any:
    ds = ex.FlatMapMapDataset(Map.range(6).shuffle(1), make_pieces())
    return ds.shuffle(2).repeat(2).to_iter_dataset(INLINE)


@stream(limit=60, steps=(0, 1, 2, 3), needs=("FlatMapTransform", "FlatMapIterDataset"))
def flatmap_iter_batched() -> Any:
    return ex.FlatMapIterDataset(numbers(12).filter(is_third), make_pieces()).batch(2)


@stream(limit=60, steps=(0, 1, 7), needs="ThreadPrefetchIterDataset")
def thread_prefetch() -> Any:
    ds = numbers(20).filter(is_third).random_map(append_draw, seed=1)
    return ex.ThreadPrefetchIterDataset(ds, prefetch_buffer_size=3)


@stream(limit=60, needs=("WithOptionsIterDataset", "DatasetOptions"))
def with_options() -> Any:
    options = ex.DatasetOptions(filter_warn_threshold_ratio=None, filter_raise_threshold_ratio=None)
    return ex.WithOptionsIterDataset(numbers(20).filter(lambda x: x == 13), options)


@value(needs=("get_next_index", "set_next_index"))
def next_index_helpers() -> Any:
    iterator = iter(Map.range(9).shuffle(1).to_iter_dataset(INLINE))
    next(iterator)
    before = ex.get_next_index(iterator)
    ex.set_next_index(iterator, 5)
    return [before, ex.get_next_index(iterator), list(iterator)]


@value(needs="batch_and_pad")
def batch_and_pad() -> Any:
    ragged = [np.arange(2), np.arange(2) + 5]
    trees = [as_tree(1), as_tree(2)]
    return [
        ex.batch_and_pad(ragged, batch_size=4),
        ex.batch_and_pad(ragged, batch_size=2, pad_value=-1),
        ex.batch_and_pad(trees, batch_size=3, pad_value=7),
    ]


@value(needs="RngPool")
def rng_pool() -> Any:
    pool = ex.RngPool(5)
    found = []
    for index in (0, 1, 1, 10**6):
        rng = pool.acquire_rng(index)
        found.append([int(rng.integers(0, 10**6)), float(rng.random())])
        pool.release_rng(rng)
    return found


def documents(n: int = 24, seed: int = 0) -> list[dict[str, np.ndarray]]:
    """Documents of one to ten tokens."""
    lengths = np.random.default_rng(seed).integers(1, 11, n)
    return [
        {"tokens": np.arange(1, k + 1, dtype=np.int32) + 100 * i, "weights": np.ones(k, np.float32)}
        for i, k in enumerate(lengths)
    ]


def _documents_iter(**kwargs: Any) -> grain.IterDataset:
    return Map.source(documents(**kwargs)).to_iter_dataset(INLINE)


_LENGTHS = {"tokens": 12, "weights": 12}
_PACKERS = {"first_fit": ("FirstFitPackIterDataset",), "best_fit": ("BestFitPackIterDataset",)}


@stream(limit=40, steps=(0, 1, 4), needs="FirstFitPackIterDataset")
def pack_first_fit() -> Any:
    return ex.FirstFitPackIterDataset(_documents_iter(), length_struct=_LENGTHS, num_packing_bins=3)


@stream(limit=40, steps=(0, 1, 4), needs="BestFitPackIterDataset")
def pack_best_fit() -> Any:
    return ex.BestFitPackIterDataset(_documents_iter(), length_struct=_LENGTHS, num_packing_bins=3)


@stream(limit=40, steps=(0, 1, 4), needs="ConcatThenSplitIterDataset")
def pack_concat() -> Any:
    return ex.ConcatThenSplitIterDataset(_documents_iter(), length_struct=_LENGTHS)


_PACKING_OPTIONS: dict[str, dict[str, Any]] = {
    "in_order": {"shuffle_bins": False},
    "other_seed": {"seed": 17},
    "one_bin": {"num_packing_bins": 1},
    "many_bins": {"num_packing_bins": 50},
    "two_sequences_at_most": {"max_sequences_per_bin": 2},
    "aligned": {"pack_alignment_struct": {"tokens": 4, "weights": 4}},
    "padded": {"padding_struct": {"tokens": -1, "weights": 0.5}},
    "uneven_lengths": {"length_struct": {"tokens": 12, "weights": 16}},
    "meta_feature": {"meta_features": ("weights",)},
    "meta_feature_without_length": {"length_struct": {"tokens": 12}, "meta_features": ("weights",)},
    "grouped_by_feature": {"shuffle_bins_group_by_feature": "tokens"},
}


@stream(
    limit=40,
    steps=(0, 1, 4),
    needs=("FirstFitPackIterDataset", "BestFitPackIterDataset"),
    over={
        f"{packer}_{option}": (name, options)
        for packer, (name,) in _PACKERS.items()
        for option, options in _PACKING_OPTIONS.items()
    },
)
def pack_with(packer: str, options: dict[str, Any]) -> Any:
    given = {"length_struct": _LENGTHS, "num_packing_bins": 3} | options
    return getattr(ex, packer)(_documents_iter(n=12), **given)


@stream(
    limit=40,
    steps=(0, 1, 4),
    needs="ConcatThenSplitIterDataset",
    over={
        "full_length_unsplit": (
            {"split_full_length_features": False, "length_struct": {"tokens": 10, "weights": 10}},
        ),
        "meta_feature": ({"meta_features": ("weights",)},),
        "short_target": ({"length_struct": {"tokens": 3, "weights": 3}},),
    },
)
def pack_concat_with(options: dict[str, Any]) -> Any:
    return ex.ConcatThenSplitIterDataset(
        _documents_iter(n=12), **({"length_struct": _LENGTHS} | options)
    )


@stream(limit=40, steps=(0, 1, 4), needs=("ConcatThenSplitIterDataset", "BOSHandling"))
def pack_concat_with_bos() -> Any:
    return ex.ConcatThenSplitIterDataset(
        _documents_iter(),
        length_struct=_LENGTHS,
        bos_handling=ex.BOSHandling.REPLACE_FIRST_TOKEN_WITH_BOS,
        bos_features=("tokens",),
        bos_token_id=-7,
    )


@value(needs="MapWithIndexTransform")
def old_name_of_map_with_index() -> Any:
    return ex.MapWithIndexTransform is grain.transforms.MapWithIndex


@stream(limit=30, steps=(0, 5), needs="multithread_prefetch")
def multithread_prefetch() -> Any:
    return ex.multithread_prefetch(
        Map.range(20).to_iter_dataset(THREADS), num_threads=1, buffer_size=4
    )


def _generator_of_pieces() -> Any:
    class Pieces(ex.FlatMapTransform):
        max_fan_out = 3

        def flat_map(self, element: int) -> Any:
            return (element * 10 + piece for piece in range(element % 4))

    return Pieces()


@stream(limit=60, needs=("FlatMapTransform", "FlatMapMapDataset"))
def flatmap_map_by_a_generator() -> Any:
    return ex.FlatMapMapDataset(Map.range(9), _generator_of_pieces()).to_iter_dataset(INLINE)


@value(needs=("FirstFitPackIterDataset", "BestFitPackIterDataset", "ConcatThenSplitIterDataset"))
def pack_key_order() -> Any:
    options = {"length_struct": {"weights": 12, "tokens": 12}}
    fit = options | {"num_packing_bins": 3}
    return [
        list(next(iter(ds)))
        for ds in (
            ex.FirstFitPackIterDataset(_documents_iter(), **fit),
            ex.BestFitPackIterDataset(_documents_iter(), **fit),
            ex.FirstFitPackIterDataset(
                _documents_iter(),
                length_struct={"tokens": 12},
                meta_features=("weights",),
                num_packing_bins=3,
            ),
            ex.ConcatThenSplitIterDataset(_documents_iter(), **options),
        )
    ]


@value(needs="LimitIterDataset")
def limit_after_an_error() -> Any:
    def fail_at_two(x: int) -> int:
        if x == 2:
            raise ValueError(x)
        return x

    iterator = iter(ex.LimitIterDataset(numbers(6).map(fail_at_two), 4))
    found: list[Any] = []
    for _ in range(6):
        try:
            found.append(next(iterator))
        except (ValueError, StopIteration) as error:
            found.append(type(error).__name__)
        found.append(iterator.get_state())
    return found
