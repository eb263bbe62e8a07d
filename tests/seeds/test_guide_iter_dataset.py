"""The guide's IterDataset snippets: threads, processes, mixes, closing, and tuning options."""

# ruff: noqa: B007  (the snippets stand here as they stand in the document)

from __future__ import annotations

from typing import Any

import numpy as np

import grain

my_source = list(range(200))
source_a = [{"label": i % 2, "value": i} for i in range(20)]
source_b = [{"label": i % 2, "value": 100 + i} for i in range(30)]
source = list(range(150))


def heavy_preprocess_fn(x: int) -> int:
    return x * 3


def preprocess(x: int) -> int:
    return x + 1


def test_to_iter_dataset_reads_in_threads_in_order() -> None:
    processed: list[int] = []
    process = processed.append

    ds = (
        grain.MapDataset.range(1000)
        .shuffle(seed=0)
        .map(lambda x: x * 2)
        .to_iter_dataset(grain.ReadOptions(num_threads=16, prefetch_buffer_size=500))
    )
    for batch in ds:
        process(batch)

    assert processed == [x * 2 for x in grain.MapDataset.range(1000).shuffle(seed=0)]


def test_mp_prefetch_yields_the_same_batches_and_closes() -> None:
    total_steps = 4
    steps: list[Any] = []
    train_step = steps.append

    ds = (
        grain.MapDataset.source(my_source)
        .shuffle(seed=42)
        .map(heavy_preprocess_fn)
        .batch(batch_size=64)
        .to_iter_dataset()
        .mp_prefetch(grain.MultiprocessingOptions(num_workers=8, per_worker_buffer_size=2))
    )
    it = iter(ds)
    try:
        for step in range(total_steps):
            batch = next(it)
            train_step(batch)
    finally:
        it.close()  # Explicitly release worker processes

    plain = grain.MapDataset.source(my_source).shuffle(seed=42).map(heavy_preprocess_fn)
    expected = list(plain.batch(batch_size=64))
    assert len(steps) == len(expected) == 4
    for batch, same in zip(steps, expected, strict=True):
        np.testing.assert_array_equal(batch, same)


def test_sparse_datasets_can_be_mixed() -> None:
    ds1 = grain.MapDataset.source(source_a).filter(lambda x: x["label"] == 0).to_iter_dataset()
    ds2 = grain.MapDataset.source(source_b).filter(lambda x: x["label"] == 1).to_iter_dataset()

    # Mix with equal weights (stops when either is exhausted)
    mixed = grain.IterDataset.mix([ds1, ds2], weights=[0.5, 0.5])

    expected = [v for pair in zip(range(0, 20, 2), range(101, 130, 2), strict=False) for v in pair]
    assert [x["value"] for x in mixed] == expected

    # Named components for checkpoint recovery across topology changes
    mixed = grain.IterDataset.mix(
        {"class_0": ds1, "class_1": ds2},
        weights={"class_0": 0.5, "class_1": 0.5},
    )

    assert [x["value"] for x in mixed] == expected
    assert set(iter(mixed).get_state()["parents"]) == {"class_0", "class_1"}


def test_an_iterator_can_be_closed_after_the_last_element() -> None:
    steps: list[Any] = []
    train_step = steps.append

    ds = (
        grain.MapDataset.source(my_source)
        .map(preprocess)
        .to_iter_dataset()
        .mp_prefetch(grain.MultiprocessingOptions(num_workers=4))
    )
    it = iter(ds)
    for batch in it:
        train_step(batch)
    it.close()  # or use as a context (via try/finally)

    assert steps == list(range(1, 201))


def test_read_and_multiprocessing_options_keep_the_stream() -> None:
    # ReadOptions: controls per-process I/O threading
    read_opts = grain.ReadOptions(
        num_threads=16,  # threads reading from DataSource in parallel
        prefetch_buffer_size=500,  # elements buffered per process
    )

    # MultiprocessingOptions: controls worker processes
    mp_opts = grain.MultiprocessingOptions(
        num_workers=8,  # number of worker processes
        per_worker_buffer_size=2,  # batches pre-computed per worker
        enable_profiling=False,
    )

    ds = (
        grain.MapDataset.source(source)
        .shuffle(seed=0)
        .map(preprocess)
        .batch(batch_size=64)
        .to_iter_dataset(read_opts)
        .mp_prefetch(mp_opts)
    )

    it = iter(ds)
    try:
        batches = list(it)
    finally:
        it.close()
    expected = list(grain.MapDataset.source(source).shuffle(seed=0).map(preprocess))
    assert np.concatenate(batches).tolist() == expected
    assert [len(batch) for batch in batches] == [64, 64, 22]
