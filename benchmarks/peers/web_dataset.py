"""The cases with WebDataset."""

from __future__ import annotations

import functools
import io
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import webdataset as wds

from benchmarks import work
from benchmarks.cases import ALL
from benchmarks.data import Data

BUFFER = 1000
MANY = 10**7

WRITTEN = {
    "range_batch",
    "shuffle_map_batch",
    "filter_iter_batch",
    "mix3",
    "image_decode",
    "image_decode_mp2",
    "small_files",
    "small_files_mp2",
    "import",
}
LACKS: Mapping[str, str] = {
    case.name: "streams samples from tar files" for case in ALL if case.name not in WRITTEN
}


def count(n: int) -> Iterator[int]:
    """Yield numbers in order, as a source of samples."""
    yield from range(n)


def read_array(encoded: bytes) -> np.ndarray:
    """Return a small array from a file's bytes."""
    array: np.ndarray = np.load(io.BytesIO(encoded))
    return array


def stacked(samples: list[Any]) -> np.ndarray:
    """Stack a batch of arrays or numbers."""
    return np.stack([np.asarray(s[0] if isinstance(s, tuple) else s) for s in samples])


def samples(shards: list[str], suffix: str, function: Callable[[bytes], Any], size: int) -> Any:
    """Return samples of tar files, shuffled within a buffer, computed and batched."""
    ds = wds.WebDataset(shards, shardshuffle=len(shards), empty_check=False).shuffle(BUFFER)
    ds = ds.to_tuple(suffix).map_tuple(function)
    return ds.batched(size, collation_fn=stacked, partial=False)


def loader(dataset: Any, workers: int) -> Any:
    """Return batches from worker processes, each with different shards."""
    return wds.WebLoader(dataset.repeat(), batch_size=None, num_workers=workers)


def numbers(*stages: Any) -> Any:
    """Pass numbers through stages."""
    return wds.DataPipeline(functools.partial(count, MANY), *stages)


def mixed() -> Any:
    """Mix three streams by weight."""
    source = functools.partial(count, 10**6)
    streams = [wds.DataPipeline(source, wds.shuffle(BUFFER)) for _ in range(3)]
    batch = wds.batched(128, collation_fn=stacked, partial=False)
    return wds.DataPipeline(wds.RandomMix(streams, [0.5, 0.3, 0.2]), batch)


def programs(data: Data) -> Mapping[str, Callable[[], Iterable[Any]]]:
    """Return all cases that WebDataset supports."""
    batch = wds.batched(128, collation_fn=stacked, partial=False)

    def images() -> Any:
        return samples(data.image_shards, "jpg", work.decode, 32)

    def arrays() -> Any:
        return samples(data.small_shards, "npy", read_array, 64)

    return {
        "range_batch": lambda: numbers(batch),
        "shuffle_map_batch": lambda: numbers(wds.shuffle(BUFFER), wds.map(work.add_one), batch),
        "filter_iter_batch": lambda: numbers(wds.shuffle(BUFFER), wds.select(work.is_even), batch),
        "mix3": mixed,
        "image_decode": images,
        "image_decode_mp2": lambda: loader(images(), 2),
        "small_files": arrays,
        "small_files_mp2": lambda: loader(arrays(), 2),
    }
