"""The guide's sharding, sampler and transformation snippets."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import grain


class Tokenizer:
    """A token for each word: its length."""

    def encode(self, text: str) -> np.ndarray:
        return np.array([len(word) for word in text.split()])


tokenizer = Tokenizer()
text_source = ["one two three", "four " * 600, "", "five six"]
image_source = [np.full((230, 228, 3), i, np.uint8) for i in range(40)]


@dataclasses.dataclass
class Tokenize(grain.transforms.Map):
    vocab_size: int = 32000

    def map(self, text: str) -> np.ndarray:
        return tokenizer.encode(text)


@dataclasses.dataclass
class LengthFilter(grain.transforms.Filter):
    max_length: int = 512

    def filter(self, tokens: np.ndarray) -> bool:
        return len(tokens) <= self.max_length


@dataclasses.dataclass
class SplitDocument(grain.transforms.FlatMap):
    max_fan_out: int = 10
    chunk_size: int = 128

    def flat_map(self, tokens: np.ndarray) -> Sequence[np.ndarray]:
        return [tokens[i : i + self.chunk_size] for i in range(0, len(tokens), self.chunk_size)]


@dataclasses.dataclass
class RandomCrop(grain.transforms.RandomMap):
    crop_size: int = 224

    def random_map(self, image: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        h, w = image.shape[:2]
        top = rng.integers(0, h - self.crop_size + 1)
        left = rng.integers(0, w - self.crop_size + 1)
        return image[top : top + self.crop_size, left : left + self.crop_size]


def test_a_dataset_and_a_sampler_can_be_sharded() -> None:
    source = list(range(10))

    # No sharding (single process)
    shard = grain.NoSharding()
    assert (shard.shard_index, shard.shard_count) == (0, 1)

    # Shard by JAX process (multi-host training)
    shard = grain.ShardByJaxProcess(drop_remainder=True)
    assert (shard.shard_index, shard.shard_count, shard.drop_remainder) == (0, 1, True)

    # Manual sharding
    shard = grain.ShardOptions(shard_index=1, shard_count=4, drop_remainder=False)

    # Use in Dataset pipeline
    ds = (
        grain.MapDataset.source(source).shuffle(seed=0)[
            shard.shard_index :: shard.shard_count
        ]  # slice-based sharding
    )

    assert list(ds) == list(grain.MapDataset.source(source).shuffle(seed=0))[1::4]

    # Or delegate to IndexSampler / DataLoader
    sampler = grain.IndexSampler(
        num_records=len(source),
        shard_options=grain.ShardByJaxProcess(),
        shuffle=True,
        seed=0,
    )

    assert sorted(int(sampler[i].record_key) for i in range(10)) == source


def test_an_index_sampler_prints_its_settings_and_records(
    capsys: pytest.CaptureFixture[str],
) -> None:
    # Single-epoch sequential
    sampler = grain.IndexSampler(
        num_records=60000,
        shard_options=grain.NoSharding(),
        shuffle=False,
        num_epochs=1,
    )
    assert len(sampler) == 60000
    assert [int(sampler[i].record_key) for i in (0, 1, 59999)] == [0, 1, 59999]

    # Infinite shuffled training across 8 JAX hosts
    sampler = grain.IndexSampler(
        num_records=1_000_000,
        shard_options=grain.ShardByJaxProcess(),
        shuffle=True,
        num_epochs=None,
        seed=42,
    )
    print(repr(sampler))
    # IndexSampler(num_records=1000000, shard_options=ShardByJaxProcess(...), ...)

    assert capsys.readouterr().out == (
        "IndexSampler(num_records=1000000, shard_options=ShardByJaxProcess(shard_index=0, "
        "shard_count=1, drop_remainder=False), shuffle=True, num_epochs=None, seed=42)\n"
    )


def test_a_dataset_applies_transformations() -> None:
    # Use in a Dataset pipeline
    ds = (
        grain.MapDataset.source(text_source)
        .map(Tokenize())
        .filter(LengthFilter(max_length=512))
        .to_iter_dataset()
        .map(lambda x: x)  # further per-element ops
    )

    assert [tokens.tolist() for tokens in ds] == [[3, 3, 5], [], [4, 3]]


def test_a_flat_map_splits_a_document() -> None:
    pieces = SplitDocument().flat_map(np.arange(300))
    assert [len(piece) for piece in pieces] == [128, 128, 44]
    assert SplitDocument().max_fan_out == 10


@pytest.mark.parametrize("workers", [0, 4])
def test_a_loader_applies_transformations(workers: int) -> None:
    sampler = grain.IndexSampler(
        num_records=len(image_source),
        shard_options=grain.NoSharding(),
        shuffle=True,
        num_epochs=1,
        seed=42,
    )

    # Use in a DataLoader pipeline
    loader = grain.DataLoader(
        data_source=image_source,
        sampler=sampler,
        operations=[RandomCrop(crop_size=224), grain.transforms.Batch(32)],
        worker_count=workers,
    )

    batches: list[Any] = list(loader)
    assert [batch.shape for batch in batches] == [(32, 224, 224, 3), (8, 224, 224, 3)]
    seen = np.concatenate([batch[:, 0, 0, 0] for batch in batches])
    assert seen.tolist() == [int(metadata.record_key) for metadata in sampler]
