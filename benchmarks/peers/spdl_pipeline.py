"""The cases with SPDL."""

from __future__ import annotations

import functools
import itertools
import multiprocessing
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import numpy as np
from spdl.pipeline import PipelineBuilder
from spdl.source import DistributedRandomSampler

from benchmarks import work
from benchmarks.cases import HEAVY_WORKERS, LENGTHS
from benchmarks.data import Data

NO_PACKING = "does not pack"
ALL_INDICES = "its sampler shuffles all indices in memory"

LACKS: Mapping[str, str] = {
    "random_map": "has no random generator for each element",
    "mix3": "does not mix data sets by weight",
    "dataloader_w0": "its loader is the pipeline of the cases above",
    "dataloader_w2": "its loader is the pipeline of the cases above",
    "pack_first_fit": NO_PACKING,
    "pack_best_fit": NO_PACKING,
    "pack_concat_split": NO_PACKING,
    "text_pack": NO_PACKING,
    "arrayrecord_1k_seq": "does not read ArrayRecord",
    "arrayrecord_1k_threads": "does not read ArrayRecord",
    "arrayrecord_1k_batch_threads": "does not read ArrayRecord",
    "parquet_iter": "does not read Parquet",
    "length_1e9": ALL_INDICES,
    "length_1e12": ALL_INDICES,
}

MANY = 10**7
THREADS = 16
Source = Any


class Shuffled:
    """Random indices below n, drawn as needed, without end."""

    def __init__(self, n: int) -> None:
        self.n = n

    def __iter__(self) -> Iterator[int]:
        rng = np.random.default_rng(0)
        while True:
            yield from rng.integers(0, self.n, 1024).tolist()


def gathered(indices: Iterable[int], size: int) -> Iterator[list[int]]:
    """Yield indices in full batches."""
    iterator = iter(indices)
    while len(batch := list(itertools.islice(iterator, size))) == size:
        yield batch


def batch_of(source: Source, function: Callable[[Any], Any], indices: list[int]) -> np.ndarray:
    """Compute the elements of a batch and stack them."""
    return np.stack([np.asarray(function(source[index])) for index in indices])


def image_batch(source: Source, function: Callable[[Any], Any], indices: list[int]) -> Any:
    """Return a batch of images with labels."""
    elements = [function(source[index]) for index in indices]
    return {name: np.stack([e[name] for e in elements]) for name in ("image", "label")}


def same(x: Any) -> Any:
    """Return the argument."""
    return x


def ended(pipeline: Any, pool: ProcessPoolExecutor | None = None) -> Iterator[Any]:
    """Yield the outputs of a pipeline, and stop it and its processes at the end."""
    try:
        with pipeline.auto_stop():
            yield from pipeline.get_iterator(timeout=60)
    finally:
        if pool is not None:
            pool.shutdown(cancel_futures=True)


def batches(
    indices: Iterable[int],
    size: int,
    function: Callable[[list[int]], Any],
    threads: int = 1,
    workers: int = 0,
) -> Iterator[Any]:
    """Gather indices into batches, and compute them in threads or worker processes."""
    pool = None
    if workers:
        pool = ProcessPoolExecutor(workers, multiprocessing.get_context("spawn"))
    builder = PipelineBuilder().add_source(gathered(indices, size))
    count = workers or threads
    builder = builder.pipe(function, concurrency=count, executor=pool, output_order="input")
    return ended(builder.add_sink(2 * count).build(num_threads=count), pool)


def each(indices: Iterable[int], size: int, function: Callable[[Any], Any]) -> Iterator[Any]:
    """Compute each element as a task in threads, then batch."""
    builder = PipelineBuilder().add_source(indices)
    builder = builder.pipe(function, concurrency=THREADS, output_order="input")
    if size > 1:
        builder = builder.aggregate(size, drop_last=True).pipe(np.stack)
    return ended(builder.add_sink(4 if size > 1 else 500).build(num_threads=THREADS))


def even_batches(function: Callable[[Any], Any], size: int, workers: int = 0) -> Iterator[Any]:
    """Apply a function to batches of filtered elements."""
    evens = (x for x in Shuffled(MANY) if work.is_even(x))
    return batches(evens, size, function, workers=workers)


def programs(data: Data) -> Mapping[str, Callable[[], Iterable[Any]]]:
    """Return all cases that SPDL supports."""
    one = functools.partial(batch_of, work.Ints(MANY), work.add_one)
    heavy = functools.partial(batch_of, work.Ints(MANY), work.heavy)
    plain = functools.partial(image_batch, work.Images(10**6), same)
    normal = functools.partial(image_batch, work.Images(10**6), work.normalize)
    large = functools.partial(batch_of, work.LargeArrays(10**6), same)
    remote = functools.partial(batch_of, work.Remote(MANY), same)

    def images(workers: int = 0) -> Iterator[Any]:
        files = data.image_files
        function = functools.partial(batch_of, files, work.read_image)
        return batches(Shuffled(len(files)), 32, function, threads=2, workers=workers)

    def arrays(workers: int = 0) -> Iterator[Any]:
        files = data.small_files
        function = functools.partial(batch_of, files, work.read_array)
        return batches(Shuffled(len(files)), 64, function, threads=2, workers=workers)

    def sampled(n: int, function: Callable[[list[int]], Any], workers: int = 0) -> Iterator[Any]:
        sampler = DistributedRandomSampler(n, rank=0, world_size=1, seed=1)
        return batches(sampler, 128, function, workers=workers)

    made: dict[str, Callable[[], Iterable[Any]]] = {
        "range_batch": lambda: batches(range(MANY), 128, np.asarray),
        "shuffle_map_batch": lambda: batches(Shuffled(MANY), 128, one),
        "shuffle_map_batch_threads": lambda: batches(Shuffled(MANY), 128, one, THREADS),
        "map_elems_threads": lambda: each(Shuffled(MANY), 1, work.add_one),
        "iter_batch_after_threads": lambda: each(Shuffled(MANY), 128, work.add_one),
        "filter_iter_batch": lambda: even_batches(np.asarray, 128),
        "ints_batch_mp2": lambda: batches(Shuffled(MANY), 128, one, workers=2),
        "filter_batch_heavy_w0": lambda: even_batches(work.heavy_batch, 64),
        "filter_batch_heavy_mp2": lambda: even_batches(work.heavy_batch, 64, workers=2),
        "images_batch": lambda: batches(Shuffled(10**6), 64, plain),
        "images_norm_batch_mp2": lambda: batches(Shuffled(10**6), 64, normal, workers=2),
        "image_decode": images,
        "image_decode_mp2": lambda: images(workers=2),
        "large_arrays": lambda: batches(Shuffled(10**6), 4, large),
        "large_arrays_mp2": lambda: batches(Shuffled(10**6), 4, large, workers=2),
        "small_files": arrays,
        "small_files_mp2": lambda: arrays(workers=2),
        "latency_threads": lambda: each(Shuffled(MANY), 32, work.Remote(MANY).__getitem__),
        "latency_mp2": lambda: batches(Shuffled(MANY), 32, remote, workers=2),
        "first_batch": lambda: sampled(10**6, one),
        "first_batch_mp2": lambda: sampled(10**6, one, workers=2),
        "memory_mp2": lambda: batches(Shuffled(10**6), 64, normal, workers=2),
    }
    for name, count in HEAVY_WORKERS.items():
        made[name] = functools.partial(batches, Shuffled(MANY), 64, heavy, workers=count)
    for name, length in LENGTHS.items():
        made[name] = functools.partial(sampled, length, np.asarray)
    return made
