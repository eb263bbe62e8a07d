"""Wrong arguments of the names in `grain.experimental`, and of methods that stand for them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import grain
from grain import experimental as ex

Shard = grain.sharding.ShardOptions
LENGTHS = {"x": 4}
BY_INDEX = grain.MapDataset.range(4)
IN_ORDER = BY_INDEX.to_iter_dataset()


class Twice(ex.FlatMapTransform):
    def __init__(self, fan_out: Any = 2):
        self.max_fan_out = fan_out

    def flat_map(self, element: Any) -> list[Any]:
        return [element, element]


class Wrong(NamedTuple):
    """A call that is wrong.

    Attributes:
      call: does it.
      error: what is raised.
      mentions: what the message must contain: the argument, what was given, what was expected.
    """

    call: Callable[[], Any]
    error: type[Exception]
    mentions: tuple[str, ...]


def not_a_dataset(make: Callable[[Any], Any], name: str) -> Wrong:
    return Wrong(
        lambda: make([1, 2]), TypeError, (name, "`parent`", "[1, 2] of type list", "Dataset")
    )


def not_a_map_dataset(make: Callable[[Any], Any], name: str) -> Wrong:
    mentions = (name, "`parent`", "of type PrefetchIterDataset", "grain.MapDataset")
    return Wrong(lambda: make(IN_ORDER), TypeError, mentions)


def packs(kind: Any) -> list[Wrong]:
    def pack(**options: Any) -> Callable[[], Any]:
        given = {"length_struct": LENGTHS, "num_packing_bins": 2} | options
        return lambda: kind(IN_ORDER, **given)

    return [
        not_a_dataset(
            lambda ds: kind(ds, length_struct=LENGTHS, num_packing_bins=1), kind.__name__
        ),
        Wrong(pack(length_struct=4), TypeError, ("length_struct", "4 of type int", "dictionary")),
        Wrong(pack(length_struct={}), ValueError, ("length_struct", "empty", "at least one")),
        Wrong(pack(length_struct={"x": -1}), ValueError, ("length_struct['x']", "-1", "negative")),
        Wrong(pack(num_packing_bins=0), ValueError, ("num_packing_bins", "0", "positive")),
        Wrong(pack(num_packing_bins="2"), TypeError, ("num_packing_bins", "'2'", "integer")),
        Wrong(pack(seed=-1), ValueError, ("seed", "-1", "non-negative")),
        Wrong(pack(meta_features=3), TypeError, ("meta_features", "3 of type int", "sequence")),
        Wrong(pack(meta_features="x"), TypeError, ("meta_features", "'x'", "sequence")),
        Wrong(
            pack(max_sequences_per_bin=0), ValueError, ("max_sequences_per_bin", "0", "positive")
        ),
        Wrong(
            pack(pack_alignment_struct={"y": 2}),
            ValueError,
            ("pack_alignment_struct", "'y'", "length_struct"),
        ),
        Wrong(
            pack(pack_alignment_struct={"x": 0}),
            ValueError,
            ("pack_alignment_struct['x']", "0", "positive"),
        ),
        Wrong(pack(padding_struct={"y": 0}), ValueError, ("padding_struct", "'y'", "'x'")),
        Wrong(
            pack(shuffle_bins_group_by_feature="z"),
            KeyError,
            ("shuffle_bins_group_by_feature", "'z'", "'x'"),
        ),
    ]


def shard_batches(**options: Any) -> Callable[[], Any]:
    given = {"shard_options": Shard(0, 1), "batch_size": 2} | options
    return lambda: ex.ShardBatchesMapDataset(BY_INDEX, **given)


def elastic(**options: Any) -> Callable[[], Any]:
    given = {"ds": BY_INDEX, "global_batch_size": 4, "shard_options": Shard(0, 2)} | options
    return lambda: ex.ElasticIterator(**given)


def joins(**options: Any) -> Callable[[], Any]:
    return lambda: ex.ConcatThenSplitIterDataset(IN_ORDER, **({"length_struct": LENGTHS} | options))


def tunes(function: Any, **fixed: Any) -> list[Wrong]:
    def call(**options: Any) -> Callable[[], Any]:
        return lambda: function(IN_ORDER, **(fixed | options))

    return [
        Wrong(call(ram_budget_mb=0), ValueError, ("ram_budget_mb", "0", "positive")),
        Wrong(call(ram_budget_mb="1"), TypeError, ("ram_budget_mb", "'1'", "number")),
        Wrong(call(max_workers=-1), ValueError, ("max_workers", "-1", "non-negative")),
        Wrong(call(max_buffer_size=0), ValueError, ("max_buffer_size", "0", "positive")),
        Wrong(call(samples_to_check="a"), TypeError, ("samples_to_check", "'a'", "integer")),
    ]


def shuffle(index: Any = 1, max_index: Any = 3, seed: Any = 1, rounds: Any = 4) -> Any:
    return lambda: ex.index_shuffle(index, max_index=max_index, seed=seed, rounds=rounds)


SEED = ("eed", "-1", "2**32")
WRONG: dict[str, list[Wrong]] = {
    "BOSHandling": [
        Wrong(lambda: ex.BOSHandling(9), ValueError, ("9", "BOSHandling")),
        Wrong(joins(bos_handling=2), TypeError, ("bos_handling", "2 of type int", "BOSHandling")),
    ],
    "BestFitPackIterDataset": packs(ex.BestFitPackIterDataset),
    "CacheIterDataset": [
        not_a_dataset(ex.CacheIterDataset, "CacheIterDataset"),
        Wrong(lambda: ex.CacheIterDataset(None), TypeError, ("`parent`", "None", "IterDataset")),
    ],
    "ConcatThenSplitIterDataset": [
        Wrong(joins(length_struct=4), TypeError, ("length_struct", "4 of type int", "dictionary")),
        Wrong(joins(length_struct={"x": 0}), ValueError, ("length_struct", "0", "positive")),
        Wrong(joins(meta_features=3), TypeError, ("meta_features", "3 of type int", "sequence")),
        Wrong(joins(bos_token_id=1), ValueError, ("bos_token_id", "DO_NOTHING", "not used")),
    ],
    "DatasetOptions": [
        Wrong(
            lambda: ex.DatasetOptions(filter_raise_threshold_ratio="a"),
            TypeError,
            ("filter_raise_threshold_ratio", "'a'", "number"),
        ),
        Wrong(
            lambda: ex.DatasetOptions(filter_warn_threshold_ratio=-1),
            ValueError,
            ("filter_warn_threshold_ratio", "-1", "0"),
        ),
    ],
    "ElasticIterator": [
        Wrong(elastic(ds=[1]), TypeError, ("[1] of type list", "grain.MapDataset")),
        Wrong(elastic(global_batch_size=0), ValueError, ("global_batch_size", "0", "positive")),
        Wrong(elastic(global_batch_size=3), ValueError, ("batch size 3", "shard count 2")),
        Wrong(elastic(shard_options=2), TypeError, ("shard_options", "2 of type int", "Shard")),
        Wrong(elastic(remainder="no"), ValueError, ("remainder", "'no'", "'drop'")),
    ],
    "ExecutionTrackingMode": [
        Wrong(lambda: ex.ExecutionTrackingMode(77), ValueError, ("77", "ExecutionTrackingMode")),
        Wrong(lambda: ex.ExecutionTrackingMode("x"), ValueError, ("'x'", "ExecutionTrackingMode")),
    ],
    "FirstFitPackIterDataset": packs(ex.FirstFitPackIterDataset),
    "FlatMapIterDataset": [
        not_a_dataset(lambda ds: ex.FlatMapIterDataset(ds, Twice()), "FlatMapIterDataset"),
        Wrong(
            lambda: ex.FlatMapIterDataset(IN_ORDER, 3),
            TypeError,
            ("flat_map", "3 of type int", "grain.transforms.FlatMap"),
        ),
    ],
    "FlatMapMapDataset": [
        not_a_map_dataset(lambda ds: ex.FlatMapMapDataset(ds, Twice()), "FlatMapMapDataset"),
        Wrong(
            lambda: ex.FlatMapMapDataset(BY_INDEX, len),
            TypeError,
            ("flat_map", "built-in function len", "grain.transforms.FlatMap"),
        ),
        Wrong(
            lambda: ex.FlatMapMapDataset(BY_INDEX, Twice(0)),
            ValueError,
            ("max_fan_out", "0", "positive"),
        ),
    ],
    "FlatMapTransform": [
        Wrong(lambda: ex.FlatMapTransform(), TypeError, ("FlatMap", "flat_map")),
        Wrong(lambda: BY_INDEX.flat_map(Twice("2")), TypeError, ("max_fan_out", "'2'", "integer")),
    ],
    "InterleaveIterDataset": [
        Wrong(
            lambda: ex.InterleaveIterDataset(IN_ORDER, cycle_length=1),
            TypeError,
            ("InterleaveIterDataset", "PrefetchIterDataset", "sequence of datasets"),
        ),
        Wrong(
            lambda: ex.InterleaveIterDataset([], cycle_length=1),
            ValueError,
            ("none", "at least one dataset"),
        ),
        *(
            Wrong(
                lambda name=name, wrong=wrong: ex.InterleaveIterDataset(
                    [IN_ORDER], **({"cycle_length": 1} | {name: wrong})
                ),
                error,
                (name, repr(wrong), expected),
            )
            for name, wrong, error, expected in (
                ("cycle_length", 0, ValueError, "positive"),
                ("cycle_length", 1.5, TypeError, "integer"),
                ("num_make_iter_threads", -1, ValueError, "non-negative"),
                ("make_iter_buffer_size", "1", TypeError, "integer"),
                ("iter_buffer_size", -1, ValueError, "non-negative"),
            )
        ),
    ],
    "LimitIterDataset": [
        not_a_dataset(lambda ds: ex.LimitIterDataset(ds, 3), "LimitIterDataset"),
        Wrong(lambda: ex.LimitIterDataset(IN_ORDER, -1), ValueError, ("Count", "-1", "positive")),
        Wrong(lambda: ex.LimitIterDataset(IN_ORDER, "3"), TypeError, ("count", "'3'", "integer")),
    ],
    "MapWithIndexTransform": [
        Wrong(lambda: ex.MapWithIndexTransform(), TypeError, ("MapWithIndex", "map_with_index")),
        Wrong(
            lambda: IN_ORDER.map_with_index(3),
            TypeError,
            ("map_with_index", "3 of type int", "grain.transforms.MapWithIndex"),
        ),
    ],
    "PackAndBatchOperation": [
        Wrong(
            lambda: ex.PackAndBatchOperation(LENGTHS, 0),
            ValueError,
            ("batch_size", "0", "positive"),
        ),
        Wrong(
            lambda: ex.PackAndBatchOperation({"x": "4"}, 2),
            TypeError,
            ("length_struct", "'4'", "integer"),
        ),
        Wrong(
            lambda: ex.PackAndBatchOperation(LENGTHS, 2, 0),
            ValueError,
            ("max_sequences_per_bin", "0", "positive"),
        ),
    ],
    "PadOrTrim": [
        Wrong(lambda: ex.PadOrTrim(-1), ValueError, ("lengths", "-1", "non-negative")),
        Wrong(lambda: ex.PadOrTrim("3"), TypeError, ("lengths", "'3'", "integer")),
        Wrong(lambda: ex.PadOrTrim({"a": -1}), ValueError, ("lengths['a']", "-1", "non-negative")),
        Wrong(lambda: ex.PadOrTrim({"a": 1}, {"b": 0}), ValueError, ("pad_value", "'b'", "'a'")),
        Wrong(lambda: ex.PadOrTrim(3, {"a": 0}), TypeError, ("pad_value", "{'a': 0}", "lengths")),
    ],
    "RebatchIterDataset": [
        not_a_dataset(lambda ds: ex.RebatchIterDataset(ds, 2), "RebatchIterDataset"),
        Wrong(
            lambda: ex.RebatchIterDataset(IN_ORDER, 0), ValueError, ("batch_size", "0", "positive")
        ),
        Wrong(
            lambda: ex.RebatchIterDataset(IN_ORDER, 2.0),
            TypeError,
            ("batch_size", "2.0", "integer"),
        ),
    ],
    "Rekey": [
        Wrong(lambda: ex.Rekey(["a"]), TypeError, ("rekey", "['a'] of type list", "dictionary")),
        Wrong(
            lambda: ex.Rekey({"a": "x", "b": "x"}), ValueError, ("rekey", "'b': 'x'", "same name")
        ),
    ],
    "Remainder": [
        Wrong(lambda: ex.Remainder("no"), ValueError, ("'no'", "Remainder")),
        Wrong(shard_batches(remainder=3), ValueError, ("remainder", "3", "'drop'")),
    ],
    "RepeatIterDataset": [
        not_a_dataset(lambda ds: ex.RepeatIterDataset(ds, 2), "RepeatIterDataset"),
        Wrong(
            lambda: ex.RepeatIterDataset(IN_ORDER, 0), ValueError, ("num_epochs", "0", "positive")
        ),
        Wrong(
            lambda: ex.RepeatIterDataset(IN_ORDER, "2"), TypeError, ("num_epochs", "'2'", "integer")
        ),
    ],
    "ShapeDtypeStruct": [
        Wrong(lambda: ex.ShapeDtypeStruct(3, np.int32), TypeError, ("shape", "3", "sequence")),
        Wrong(lambda: ex.ShapeDtypeStruct("ab", np.int32), TypeError, ("shape", "'ab'", "lengths")),
        Wrong(lambda: ex.ShapeDtypeStruct((1, -2)), ValueError, ("shape", "-2", "non-negative")),
        Wrong(lambda: ex.ShapeDtypeStruct((1,), "no"), TypeError, ("dtype", "'no'", "numpy")),
    ],
    "ShardBatchesMapDataset": [
        Wrong(shard_batches(shard_options=3), TypeError, ("shard_options", "3 of type int")),
        Wrong(shard_batches(batch_size=0), ValueError, ("batch_size", "0", "positive")),
        Wrong(shard_batches(remainder="no"), ValueError, ("remainder", "'no'", "'wrap'")),
    ],
    "TFRecordIterDataset": [
        Wrong(lambda: ex.TFRecordIterDataset(3), TypeError, ("path", "3 of type int", "file")),
        Wrong(
            lambda: ex.TFRecordIterDataset(["a"]), TypeError, ("path", "['a']", "one TFRecord file")
        ),
        Wrong(lambda: ex.TFRecordIterDataset(""), ValueError, ("path", "empty", "file")),
    ],
    "ThreadPrefetchDatasetIterator": [
        Wrong(lambda: ex.ThreadPrefetchDatasetIterator([1], 2), TypeError, ("list", "`__next__`")),
        Wrong(
            lambda: ex.ThreadPrefetchDatasetIterator(iter(IN_ORDER), -1),
            ValueError,
            ("prefetch_buffer_size", "-1", "0"),
        ),
    ],
    "ThreadPrefetchIterDataset": [
        Wrong(
            lambda: ex.ThreadPrefetchIterDataset(IN_ORDER, prefetch_buffer_size=-1),
            ValueError,
            ("prefetch_buffer_size", "-1", "0"),
        ),
        Wrong(
            lambda: ex.ThreadPrefetchIterDataset(IN_ORDER, prefetch_buffer_size="1"),
            TypeError,
            ("prefetch_buffer_size", "'1'", "integer"),
        ),
    ],
    "UnbatchIterDataset": [
        not_a_dataset(ex.UnbatchIterDataset, "UnbatchIterDataset"),
        Wrong(lambda: ex.UnbatchIterDataset(None), TypeError, ("`parent`", "None", "IterDataset")),
    ],
    "WindowShuffleIterDataset": [
        not_a_dataset(
            lambda ds: ex.WindowShuffleIterDataset(ds, window_size=2, seed=1),
            "WindowShuffleIterDataset",
        ),
        Wrong(
            lambda: ex.WindowShuffleIterDataset(IN_ORDER, window_size=0, seed=1),
            ValueError,
            ("window_size", "0", "positive"),
        ),
        Wrong(
            lambda: ex.WindowShuffleIterDataset(IN_ORDER, window_size=2, seed=-1), ValueError, SEED
        ),
    ],
    "WindowShuffleMapDataset": [
        not_a_map_dataset(
            lambda ds: ex.WindowShuffleMapDataset(ds, window_size=2, seed=1),
            "WindowShuffleMapDataset",
        ),
        Wrong(
            lambda: ex.WindowShuffleMapDataset(BY_INDEX, window_size="2", seed=1),
            TypeError,
            ("window_size", "'2'", "integer"),
        ),
        Wrong(
            lambda: ex.WindowShuffleMapDataset(BY_INDEX, window_size=2, seed=-1), ValueError, SEED
        ),
    ],
    "WithOptionsIterDataset": [
        Wrong(
            lambda: ex.WithOptionsIterDataset(IN_ORDER, 3),
            TypeError,
            ("options", "3 of type int", "DatasetOptions"),
        ),
        Wrong(
            lambda: ex.WithOptionsIterDataset(IN_ORDER, {"a": 1}),
            TypeError,
            ("options", "of type dict", "DatasetOptions"),
        ),
    ],
    "ZipIterDataset": [
        Wrong(lambda: ex.ZipIterDataset([]), ValueError, ("parent", "At least one")),
        Wrong(lambda: ex.ZipIterDataset(IN_ORDER), TypeError, ("PrefetchIterDataset", "sequence")),
        Wrong(lambda: ex.ZipIterDataset([IN_ORDER, 1]), TypeError, ("item 1", "int", "Dataset")),
    ],
    "ZipMapDataset": [
        Wrong(lambda: ex.ZipMapDataset([]), ValueError, ("parent", "At least one")),
        Wrong(lambda: ex.ZipMapDataset(3), TypeError, ("int", "sequence of datasets")),
        Wrong(
            lambda: ex.ZipMapDataset([BY_INDEX, IN_ORDER]),
            TypeError,
            ("item 1", "PrefetchIterDataset", "MapDataset"),
        ),
    ],
    "apply_transformations": [
        Wrong(
            lambda: ex.apply_transformations(IN_ORDER, [3]),
            NotImplementedError,
            ("Transformation", "3", "grain.transforms"),
        ),
        Wrong(
            lambda: ex.apply_transformations(IN_ORDER, len),
            NotImplementedError,
            ("Transformation", "built-in function len", "grain.transforms"),
        ),
    ],
    "autotune": [
        Wrong(lambda: ex.autotune(BY_INDEX), TypeError, ("RangeMapDataset", "to_iter_dataset")),
        Wrong(
            lambda: ex.autotune(IN_ORDER, time_budget_seconds=0),
            ValueError,
            ("time_budget_seconds", "0", "positive"),
        ),
        *tunes(ex.autotune),
    ],
    "batch_and_pad": [
        Wrong(lambda: ex.batch_and_pad([], batch_size=2), ValueError, ("empty sequence",)),
        Wrong(
            lambda: ex.batch_and_pad([1], batch_size=0), ValueError, ("batch_size", "0", "positive")
        ),
        Wrong(lambda: ex.batch_and_pad([1, 2, 3], batch_size=2), ValueError, ("3", "2")),
    ],
    "get_element_spec": [
        Wrong(lambda: ex.get_element_spec(3), TypeError, ("3 of type int", "dataset")),
        Wrong(lambda: ex.get_element_spec([1]), TypeError, ("[1] of type list", "dataset")),
    ],
    "get_next_index": [
        Wrong(lambda: ex.get_next_index(3), TypeError, ("3 of type int", "DatasetIterator")),
        Wrong(lambda: ex.get_next_index(IN_ORDER), TypeError, ("PrefetchIterDataset", "Iterator")),
    ],
    "index_shuffle": [
        Wrong(shuffle(index=5), ValueError, ("index", "5", "max_index = 3")),
        Wrong(shuffle(seed=-1), ValueError, ("seed", "-1", "2**32")),
        Wrong(shuffle(rounds=3), ValueError, ("rounds", "3", "even")),
    ],
    "multithread_prefetch": [
        Wrong(
            lambda: ex.multithread_prefetch(IN_ORDER, -1, 2),
            ValueError,
            ("num_threads", "-1", "non-negative"),
        ),
        Wrong(
            lambda: ex.multithread_prefetch(IN_ORDER, 1, "a"),
            TypeError,
            ("buffer_size", "'a'", "integer"),
        ),
    ],
    "pick_performance_config": [
        Wrong(
            lambda: ex.pick_performance_config(
                [1], ram_budget_mb=1, max_workers=1, max_buffer_size=1
            ),
            TypeError,
            ("ds", "[1] of type list", "dataset"),
        ),
        *tunes(ex.pick_performance_config, ram_budget_mb=1, max_workers=1, max_buffer_size=1),
    ],
    "set_next_index": [
        Wrong(lambda: ex.set_next_index(3, 1), TypeError, ("3 of type int", "DatasetIterator")),
        Wrong(
            lambda: ex.set_next_index(iter(IN_ORDER), "a"), TypeError, ("index", "'a'", "integer")
        ),
        Wrong(lambda: ex.set_next_index(iter(IN_ORDER), 99), IndexError, ("99", "length 4")),
    ],
    "train_validation_split": [
        Wrong(
            lambda: ex.train_validation_split(IN_ORDER, validation=1, seed=1),
            TypeError,
            ("PrefetchIterDataset", "grain.MapDataset"),
        ),
        Wrong(
            lambda: ex.train_validation_split(BY_INDEX, validation="a", seed=1),
            TypeError,
            ("validation", "'a'", "integer"),
        ),
        Wrong(
            lambda: ex.train_validation_split(BY_INDEX, validation=4, seed=1),
            ValueError,
            ("validation", "4", "empty"),
        ),
        Wrong(
            lambda: ex.train_validation_split(BY_INDEX, validation=1, seed=-1),
            ValueError,
            ("seed", "-1", "non-negative"),
        ),
    ],
    "progress": [
        Wrong(lambda: ex.progress(5), TypeError, ("progress", "5 of type int", "dataset")),
        Wrong(lambda: ex.progress([], total="a"), TypeError, ("total", "'a'", "integer")),
        Wrong(lambda: ex.progress([], epoch_length=0), ValueError, ("epoch_length", "0")),
    ],
}
# Names that check nothing when they are built, and why.
NOTHING_TO_CHECK = {
    "PerformanceConfig": "holds options that check themselves",
    "RngPool": "makes generators of any seed that numpy takes",
    "ShapeDtypeStructProtocol": "is a protocol",
    "assert_equal_output_after_checkpoint": "is a check: it runs what it is given",
    "device_put": "needs JAX; tested where it is installed",
    "to_mesh": "needs JAX; tested where it is installed",
}
# The methods of datasets have the checks of the operations above, by other ways.
METHODS: dict[str, Wrong] = {
    "limit": Wrong(lambda: IN_ORDER.limit(-1), ValueError, ("Count", "-1", "positive")),
    "pack length_struct": Wrong(
        lambda: IN_ORDER.pack(3), TypeError, ("length_struct", "3 of type int", "dictionary")
    ),
    "pack strategy": Wrong(
        lambda: IN_ORDER.pack(LENGTHS, strategy="x"),
        ValueError,
        ("strategy", "'x'", "'first_fit'", "'best_fit'", "'concat_then_split'"),
    ),
    "pad_or_trim": Wrong(
        lambda: IN_ORDER.pad_or_trim("a"), TypeError, ("lengths", "'a'", "integer")
    ),
    "rebatch": Wrong(lambda: IN_ORDER.rebatch(0), ValueError, ("batch_size", "0", "positive")),
    "rekey": Wrong(lambda: IN_ORDER.rekey(3), TypeError, ("rekey", "3 of type int", "dictionary")),
    "repeat": Wrong(lambda: IN_ORDER.repeat("a"), TypeError, ("num_epochs", "'a'", "integer")),
    "shard_batches": Wrong(
        lambda: BY_INDEX.shard_batches(Shard(0, 1), 0), ValueError, ("batch_size", "0", "positive")
    ),
    "train_validation_split": Wrong(
        lambda: BY_INDEX.train_validation_split(validation=0, seed=1),
        ValueError,
        ("validation", "0", "positive"),
    ),
    "window_shuffle": Wrong(
        lambda: IN_ORDER.window_shuffle(0, seed=1), ValueError, ("window_size", "0", "positive")
    ),
    "zip": Wrong(lambda: IN_ORDER.zip(3), TypeError, ("item 1", "int", "Dataset")),
}

ONE = Shard(0, 1)
LESS_USED: list[Wrong] = [
    Wrong(
        lambda: ex.ElasticIterator(BY_INDEX, 2, ONE, read_options=3),
        TypeError,
        ("read_options", "3 of type int", "grain.ReadOptions"),
    ),
    Wrong(
        lambda: ex.ElasticIterator(BY_INDEX, 2, ONE, multiprocessing_options=3),
        TypeError,
        ("multiprocessing_options", "3 of type int", "grain.MultiprocessingOptions"),
    ),
    Wrong(
        lambda: ex.ElasticIterator(BY_INDEX, 2, ONE, mask_name=3),
        TypeError,
        ("mask_name", "3 of type int", "a text"),
    ),
    Wrong(
        lambda: ex.ShardBatchesMapDataset(BY_INDEX, ONE, 2, mask_name=3),
        TypeError,
        ("mask_name", "3 of type int", "a text"),
    ),
    not_a_map_dataset(lambda ds: ex.ShardBatchesMapDataset(ds, ONE, 2), "ShardBatchesMapDataset"),
    not_a_dataset(lambda ds: ex.multithread_prefetch(ds, 1, 1), "multithread_prefetch"),
    not_a_dataset(
        lambda ds: ex.ThreadPrefetchIterDataset(ds, prefetch_buffer_size=1),
        "ThreadPrefetchIterDataset",
    ),
    not_a_dataset(
        lambda ds: ex.ConcatThenSplitIterDataset(ds, length_struct=LENGTHS),
        "ConcatThenSplitIterDataset",
    ),
    Wrong(
        lambda: ex.ConcatThenSplitIterDataset(
            IN_ORDER, length_struct=LENGTHS, split_full_length_features="x"
        ),
        TypeError,
        ("split_full_length_features", "'x' of type str", "True or False"),
    ),
    Wrong(
        lambda: ex.DatasetOptions(execution_tracking_mode=3),
        TypeError,
        ("execution_tracking_mode", "3 of type int", "ExecutionTrackingMode"),
    ),
    Wrong(lambda: ex.RngPool("a"), TypeError, ("seed", "'a' of type str", "an integer")),
    Wrong(
        lambda: ex.PackAndBatchOperation({"x": 0}, 2),
        ValueError,
        ("length_struct", "positive", "got 0"),
    ),
    Wrong(
        lambda: ex.index_shuffle("a", max_index=3, seed=1, rounds=4),
        TypeError,
        ("index", "'a' of type str", "an integer"),
    ),
    Wrong(
        lambda: ex.assert_equal_output_after_checkpoint([1]),
        TypeError,
        ("assert_equal_output_after_checkpoint", "[1] of type list", "a grain dataset"),
    ),
]
