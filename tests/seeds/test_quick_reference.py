"""The quick reference's snippets: source, sampler, operations, sharding, loader."""

# ruff: noqa: B007  (the snippets stand here as they stand in the document)

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest

import grain


class MySource(grain.RandomAccessDataSource):
    def __init__(self, data_items):
        self._data = data_items

    def __len__(self):
        return len(self._data)

    def __getitem__(self, idx):
        return self._data[idx]  # Load raw record


class Normalize(grain.MapTransform):
    def map(self, data):
        data["image"] = data["image"].astype(np.float32) / 255.0
        return data


class RandomFlip(grain.RandomMapTransform):
    def random_map(self, data, rng):
        if rng.random() > 0.5:
            data["image"] = np.fliplr(data["image"])
        return data


class Items:
    """Three hundred small images; each read returns a new object, like a file."""

    def __len__(self) -> int:
        return 300

    def __getitem__(self, index: int) -> dict[str, Any]:
        return {"image": np.arange(6, dtype=np.uint8).reshape(2, 3) + index % 200, "label": index}


def make_shard_options() -> grain.ShardOptions:
    # In your distributed setup
    try:
        # Auto-detects from JAX environment
        shard_options = grain.ShardByJaxProcess(drop_remainder=True)
    except ImportError:  # Fallback for single process
        shard_options = grain.ShardOptions(shard_index=0, shard_count=1, drop_remainder=True)
    return shard_options


def make_loader(**options: Any) -> grain.DataLoader:
    my_source = MySource(Items())
    shard_options = make_shard_options()

    sampler = grain.IndexSampler(
        num_records=len(my_source),
        shard_options=shard_options,  # See Sharding section
        shuffle=True,
        num_epochs=None,
        seed=42,
    )

    ops = [Normalize(), RandomFlip(), grain.Batch(batch_size=128)]

    # DataLoader will inherit sharding from sampler if not specified directly
    return grain.DataLoader(data_source=my_source, operations=ops, sampler=sampler, **options)


def test_the_loader_takes_every_named_argument() -> None:
    data_loader = make_loader(
        worker_count=0,  # 0 for sequential, >0 for parallel
        shard_options=grain.NoSharding(),
        # Disables thread prefetching when dataset in memory already
        read_options=grain.ReadOptions(num_threads=0),
    )
    assert next(iter(data_loader))["image"].shape == (128, 2, 3)

    parameters = inspect.signature(grain.DataLoader).parameters
    assert parameters["worker_count"].default == 0
    for kind in (
        grain.RandomAccessDataSource,
        grain.Transformation,
        grain.Sampler,
        grain.ShardOptions,
    ):
        assert kind is not None


def test_a_source_reads_by_index() -> None:
    source = MySource(["x", "y"])
    assert len(source) == 2
    assert source[1] == "y"
    assert isinstance(source, grain.RandomAccessDataSource)


def test_shard_options_fall_back_to_one_process() -> None:
    options = make_shard_options()
    assert (options.shard_index, options.shard_count, options.drop_remainder) == (0, 1, True)


def test_the_recommended_sharding_is_in_its_module_too() -> None:
    assert grain.sharding.ShardByJaxProcess is grain.ShardByJaxProcess


@pytest.mark.parametrize("workers", [0, 2])
def test_a_training_loop_receives_normalized_flipped_batches(workers: int) -> None:
    num_steps = 4
    steps: list[Any] = []

    # 3. Create configured grain.DataLoader
    data_loader = make_loader(worker_count=workers)
    data_iterator = iter(data_loader)

    # 4. Training Loop
    for step in range(num_steps):
        try:
            batch = next(data_iterator)
        except StopIteration:
            break

        steps.append(batch)

    assert len(steps) == 4
    sampler = grain.IndexSampler(num_records=300, shuffle=True, seed=42)
    for place, (image, label) in enumerate(
        (image, label)
        for batch in steps
        for image, label in zip(batch["image"], batch["label"], strict=True)
    ):
        metadata = sampler[place]
        assert label == metadata.record_key
        expected = Items()[label]["image"].astype(np.float32) / 255.0
        if metadata.rng.random() > 0.5:
            expected = np.fliplr(expected)
        np.testing.assert_array_equal(image, expected)


def test_a_training_loop_ends_with_the_data() -> None:
    source = MySource([{"image": np.zeros((2, 2), np.uint8), "label": i} for i in range(5)])
    sampler = grain.IndexSampler(num_records=len(source), num_epochs=1)
    data_iterator = iter(
        grain.DataLoader(
            data_source=source,
            operations=[Normalize(), grain.Batch(batch_size=2)],
            sampler=sampler,
        )
    )
    sizes = []
    for step in range(100):
        try:
            batch = next(data_iterator)
        except StopIteration:
            break
        sizes.append(len(batch["label"]))
    assert sizes == [2, 2, 1]
