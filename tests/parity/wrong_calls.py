"""Every argument of public calls, replaced by every value of a list, in any installed grain.

Most of the calls are wrong. Compared are the elements where a call works, and the class of the error where it
does not.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import grain

from .program_elements import Keep, Pieces, draw, tokens, with_index
from .program_results import encoded, failure

_SEVERAL = 6
_COUNTS = ("None", "2.5", "True", "1", "3", "2.0", "int64", "2**40", "2**70")

# Values by name; the functions take no arguments.
VALUES: dict[str, Callable[[], Any]] = {
    "None": lambda: None,
    "True": lambda: True,
    "0": lambda: 0,
    "1": lambda: 1,
    "3": lambda: 3,
    "-1": lambda: -1,
    "2.0": lambda: 2.0,
    "2.5": lambda: 2.5,
    "nan": lambda: float("nan"),
    "'x'": lambda: "x",
    "b'x'": lambda: b"x",
    "[]": list,
    "{}": dict,
    "[1, 2]": lambda: [1, 2],
    "['a', 'b']": lambda: ["a", "b"],
    "{'a': 1}": lambda: {"a": 1},
    "slice(1, 3)": lambda: slice(1, 3),
    "int64": lambda: np.int64(3),
    "array": lambda: np.arange(3),
    "2**40": lambda: 2**40,
    "2**70": lambda: 2**70,
    "object": object,
    "a class": lambda: int,
    "len": lambda: len,
    "no arguments": lambda: lambda: 5,
    "four arguments": lambda: lambda a, b, c, d: 5,
    "a map dataset": lambda: _map(),
    "an iter dataset": lambda: _iter(),
    "a transform": lambda: grain.transforms.Batch(2),
}


def _map() -> Any:
    return grain.MapDataset.range(6)


def _iter() -> Any:
    return _map().to_iter_dataset(grain.ReadOptions(0, 0))


def _loader(**arguments: Any) -> Any:
    sampler = grain.samplers.SequentialSampler(4, grain.sharding.NoSharding())
    return grain.DataLoader(**{"data_source": range(4), "sampler": sampler, **arguments})


def _sampler(**arguments: Any) -> Any:
    shards = grain.sharding.NoSharding()
    sampler = grain.samplers.IndexSampler(
        **{"num_records": 4, "shard_options": shards, "num_epochs": 1, "seed": 0, **arguments}
    )
    return [sampler[i].record_key for i in range(4)]


def _methods(make: Callable[[], Any]) -> dict[str, tuple[Callable[..., Any], dict[str, Any]]]:
    def method(name: str) -> Callable[..., Any]:
        return lambda *args, **arguments: getattr(make(), name)(*args, **arguments)

    return {
        "map": (method("map"), {"transform": tokens}),
        "map_with_index": (method("map_with_index"), {"transform": with_index}),
        "random_map": (method("random_map"), {"transform": draw, "seed": 1}),
        "filter": (method("filter"), {"transform": Keep(2)}),
        "batch": (
            method("batch"),
            {"batch_size": 2, "drop_remainder": False, "batch_fn": None},
        ),
        "seed": (method("seed"), {"seed": 1}),
        "apply": (method("apply"), {"transformations": grain.transforms.Batch(2)}),
    }


def _calls() -> dict[str, tuple[Callable[..., Any], dict[str, Any]]]:
    """Return calls that work, by name: the function, and an argument for each parameter."""
    x = grain.experimental
    pair, iter_pair = [_map(), _map()], [_iter(), _iter()]
    return {
        **{f"MapDataset.{name}": call for name, call in _methods(_map).items()},
        **{f"IterDataset.{name}": call for name, call in _methods(_iter).items()},
        "MapDataset.range": (grain.MapDataset.range, {"start": 0, "stop": 5, "step": 2}),
        "MapDataset.source": (grain.MapDataset.source, {"source": [1, 2]}),
        "MapDataset.shuffle": (_map().shuffle, {"seed": 1}),
        "MapDataset.repeat": (_map().repeat, {"num_epochs": 2, "reseed_each_epoch": True}),
        "MapDataset.slice": (_map().slice, {"sl": slice(1, 3)}),
        "MapDataset[]": (lambda index: _map()[index], {"index": 1}),
        "MapDataset.to_iter_dataset": (
            _map().to_iter_dataset,
            {"read_options": None, "allow_nones": False},
        ),
        "MapDataset.mix": (grain.MapDataset.mix, {"datasets": pair, "weights": [1, 2]}),
        "MapDataset.select_from_datasets": (
            grain.MapDataset.select_from_datasets,
            {"datasets": pair, "selection_map": None},
        ),
        "MapDataset.concatenate": (grain.MapDataset.concatenate, {"datasets": pair}),
        "IterDataset.mix": (grain.IterDataset.mix, {"datasets": iter_pair, "weights": [1, 2]}),
        "ReadOptions": (
            lambda **a: _map().to_iter_dataset(grain.ReadOptions(**a)),
            {"num_threads": 1, "prefetch_buffer_size": 2},
        ),
        "MultiprocessingOptions": (
            lambda **a: grain.MultiprocessingOptions(**a).num_workers,
            {"num_workers": 1, "per_worker_buffer_size": 2, "enable_profiling": False},
        ),
        "ShardOptions": (
            lambda **a: grain.sharding.ShardOptions(**a).shard_count,
            {"shard_index": 0, "shard_count": 2, "drop_remainder": False},
        ),
        "IndexSampler": (
            _sampler,
            {
                "num_records": 4,
                "shuffle": True,
                "num_epochs": 2,
                "seed": 1,
                "shard_options": grain.sharding.NoSharding(),
            },
        ),
        "SequentialSampler": (
            lambda **a: grain.samplers.SequentialSampler(**a)[0].record_key,
            {"num_records": 4, "shard_options": grain.sharding.NoSharding()},
        ),
        "DataLoader": (
            _loader,
            {
                "data_source": range(4),
                "sampler": grain.samplers.SequentialSampler(4, grain.sharding.NoSharding()),
                "operations": (),
                "worker_count": 0,
                "worker_buffer_size": 1,
                "shard_options": None,
                "read_options": None,
                "enable_profiling": False,
            },
        ),
        "Batch": (
            lambda **a: _map().apply(grain.transforms.Batch(**a)),
            {"batch_size": 2, "drop_remainder": False, "batch_fn": None},
        ),
        "RangeDataSource": (
            lambda **a: len(grain.sources.RangeDataSource(**a)),
            {"start": 0, "stop": 5, "step": 1},
        ),
        "index_shuffle": (
            x.index_shuffle,
            {"index": 1, "max_index": 5, "seed": 1, "rounds": 4},
        ),
        "WindowShuffleMapDataset": (
            lambda **a: x.WindowShuffleMapDataset(**{"parent": _map(), **a}),
            {"parent": None, "window_size": 2, "seed": 1},
        ),
        "WindowShuffleIterDataset": (
            lambda **a: x.WindowShuffleIterDataset(**{"parent": _iter(), **a}),
            {"parent": None, "window_size": 2, "seed": 1},
        ),
        "InterleaveIterDataset": (
            x.InterleaveIterDataset,
            {"datasets": iter_pair, "cycle_length": 2},
        ),
        "RepeatIterDataset": (x.RepeatIterDataset, {"parent": _iter(), "num_epochs": 2}),
        "LimitIterDataset": (x.LimitIterDataset, {"parent": _iter(), "count": 2}),
        "ZipMapDataset": (x.ZipMapDataset, {"parents": pair, "strict": True}),
        "ZipIterDataset": (x.ZipIterDataset, {"parents": iter_pair, "strict": True}),
        "CacheIterDataset": (x.CacheIterDataset, {"parent": _iter()}),
        "FlatMapMapDataset": (x.FlatMapMapDataset, {"parent": _map(), "transform": Pieces(2)}),
        "FlatMapIterDataset": (x.FlatMapIterDataset, {"parent": _iter(), "transform": Pieces(2)}),
        "ThreadPrefetchIterDataset": (
            x.ThreadPrefetchIterDataset,
            {"parent": _iter(), "prefetch_buffer_size": 2},
        ),
        "RebatchIterDataset": (
            x.RebatchIterDataset,
            {"parent": _iter().batch(2), "batch_size": 3, "drop_remainder": False},
        ),
        "BatchAndPad": (
            lambda **a: _iter().map(tokens).batch(2, batch_fn=x.BatchAndPad(**a)),
            {"batch_size": 2, "pad_value": 0},
        ),
        "FirstFitPackIterDataset": (
            lambda **a: x.FirstFitPackIterDataset(_iter().map(tokens), **a),
            {
                "length_struct": {"tokens": 6},
                "num_packing_bins": 2,
                "seed": 0,
                "shuffle_bins": True,
                "meta_features": (),
            },
        ),
        "ConcatThenSplitIterDataset": (
            lambda **a: x.ConcatThenSplitIterDataset(_iter().map(tokens), **a),
            {"length_struct": {"tokens": 6}, "meta_features": ()},
        ),
        "set_state": (_set_state, {"state": {"next_index": 2}}),
        "set_state of a batch": (_set_state_of_a_batch, {"state": {"parent": {"next_index": 2}}}),
    }


def _set_state(state: Any) -> Any:
    iterator = iter(_iter())
    iterator.set_state(state)
    return iterator


def _set_state_of_a_batch(state: Any) -> Any:
    iterator = iter(_iter().batch(2))
    iterator.set_state(state)
    return iterator


def _read(result: Any) -> Any:
    """Return the first elements of datasets, and other results as they are."""
    if isinstance(result, (grain.MapDataset, grain.IterDataset, grain.DataLoader)):
        result = iter(result)
    if hasattr(result, "__next__"):
        return list(itertools.islice(result, _SEVERAL))
    return result


def observe_wrong_calls() -> Iterator[tuple[str, Any]]:
    """Return the name and the result of each call."""
    for name, (function, arguments) in _calls().items():
        yield f"{name}()", _observe(function, arguments)
        for parameter, (given, make) in itertools.product(arguments, VALUES.items()):
            if parameter == "worker_count" and given in _COUNTS:
                continue  # Starts worker processes; random programs have some.
            yield (
                f"{name}({parameter}={given})",
                _observe(function, {**arguments, parameter: make()}),
            )
        yield f"{name}(unknown=1)", _observe(function, {**arguments, "unknown": 1})


def _observe(function: Callable[..., Any], arguments: dict[str, Any]) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return encoded(_read(function(**arguments)))
        except Exception as error:
            return failure(error)
