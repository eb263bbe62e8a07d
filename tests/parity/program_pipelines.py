"""The pipeline that a random program describes, built with the installed grain."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import grain

from .program_elements import (
    FUNCTIONS,
    ODD_TREES,
    OPERATIONS,
    Keep,
    Pieces,
    draw,
    tokens,
    with_index,
)

INLINE = grain.ReadOptions(num_threads=0, prefetch_buffer_size=0)


def _source(description: Any) -> Any:
    kind, size = description
    match kind:
        case "range":
            return grain.MapDataset.range(size)
        case "rows":
            return grain.MapDataset.source(np.arange(2 * size).reshape(size, 2))
        case "dicts":
            return grain.MapDataset.source([{"a": i, "b": [i, float(i)]} for i in range(size)])
        case "mixed":
            return grain.MapDataset.source([i if i % 2 else float(i) for i in range(size)])
        case "list":
            return grain.MapDataset.source(list(range(size)))
    return grain.MapDataset.source([ODD_TREES[kind](i) for i in range(size)])


def build(program: dict[str, Any]) -> Any:
    """Return the dataset or the loader of a program."""
    if "loader" in program:
        return _loader(**program["loader"])
    ds = _source(program["source"])
    for step in program["steps"]:
        ds = _apply(ds, step, lambda other: other)
    rest = program.get("iter")
    if rest is None:
        return ds
    options = grain.ReadOptions(*rest["threads"]) if "threads" in rest else INLINE
    ds = ds.to_iter_dataset(options, allow_nones=rest["allow_nones"])
    for step in rest["steps"]:
        ds = _apply(ds, step, lambda other: other.to_iter_dataset(INLINE))
    if "workers" in program:
        ds = ds.mp_prefetch(grain.MultiprocessingOptions(*program["workers"]))
    return ds


def _loader(
    *,
    records: int,
    epochs: int | None,
    shuffle: bool,
    seed: int,
    shard: list[Any],
    operations: list[list[Any]],
    workers: int,
    sampler: str,
) -> Any:
    shards = grain.sharding.ShardOptions(*shard)
    if sampler == "index":
        order: Any = grain.samplers.IndexSampler(
            records, shards, shuffle=shuffle, num_epochs=epochs, seed=seed
        )
    else:
        order = grain.samplers.SequentialSampler(records, shards)
    return grain.DataLoader(
        data_source=list(range(records)),
        sampler=order,
        operations=[OPERATIONS[kind](*arguments) for kind, *arguments in operations],
        worker_count=workers,
    )


def _apply(ds: Any, step: list[Any], convert: Callable[[Any], Any]) -> Any:
    kind, *arguments = step
    x = grain.experimental
    is_map = isinstance(ds, grain.MapDataset)
    match kind:
        case "map":
            return ds.map(FUNCTIONS[arguments[0]])
        case "map_with_index":
            return ds.map_with_index(with_index)
        case "random_map":
            return ds.random_map(draw, seed=arguments[0])
        case "filter":
            return ds.filter(Keep(arguments[0]))
        case "shuffle":
            return ds.shuffle(arguments[0])
        case "batch":
            size, drop, listed = arguments
            return ds.batch(size, drop_remainder=drop, batch_fn=list if listed else None)
        case "repeat":
            epochs, reseed = arguments
            if is_map:
                return ds.repeat(epochs, reseed_each_epoch=reseed)
            return x.RepeatIterDataset(ds, epochs)
        case "slice":
            return ds.slice(slice(*arguments))
        case "seed":
            return ds.seed(arguments[0])
        case "window_shuffle":
            make = x.WindowShuffleMapDataset if is_map else x.WindowShuffleIterDataset
            return make(ds, window_size=arguments[0], seed=arguments[1])
        case "flat_map":
            make = x.FlatMapMapDataset if is_map else x.FlatMapIterDataset
            return make(ds, Pieces(arguments[0]))
        case "limit":
            return x.LimitIterDataset(ds, arguments[0])
        case "mix":
            base = grain.MapDataset if is_map else grain.IterDataset
            return base.mix([ds, convert(_source(arguments[0]))], arguments[1])
        case "concatenate":
            return grain.MapDataset.concatenate([ds, _source(arguments[0])])
        case "zip":
            make = x.ZipMapDataset if is_map else x.ZipIterDataset
            return make([ds, convert(_source(arguments[0]))], strict=False)
        case "interleave":
            other, cycle, threads = arguments
            extra = {"num_make_iter_threads": 1} if threads == 1 else {}
            parts = [ds, convert(_source(other))]
            return x.InterleaveIterDataset(parts, cycle_length=cycle, **extra)
        case "rebatch":
            return x.RebatchIterDataset(ds, batch_size=arguments[0], drop_remainder=arguments[1])
        case "pack":
            kind, length, bins = arguments
            make = getattr(x, f"{kind}PackIterDataset")
            return make(ds.map(tokens), length_struct={"tokens": length}, num_packing_bins=bins)
        case "concat":
            return x.ConcatThenSplitIterDataset(
                ds.map(tokens), length_struct={"tokens": arguments[0]}
            )
        case "prefetch":
            return x.ThreadPrefetchIterDataset(ds, prefetch_buffer_size=arguments[0])
        case "cache":
            return x.CacheIterDataset(ds)
    raise ValueError(f"unknown step {kind!r}")
