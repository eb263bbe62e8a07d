"""The guide's MapDataset snippets: each prints the output in its comments."""

from __future__ import annotations

import dataclasses
import sys

import numpy as np
import pytest

import grain

images = [np.arange(6).reshape(2, 3) + 10 * i for i in range(8)]


def lines(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return capsys.readouterr().out.splitlines()


def test_a_source_is_a_list_or_a_data_source(capsys: pytest.CaptureFixture[str]) -> None:
    # From a plain Python list
    ds = grain.MapDataset.source([0, 1, 2, 3, 4, 5, 6, 7, 8, 9])
    print(ds[3])  # 3
    print(len(ds))  # 10

    # From a custom RandomAccessDataSource
    class MySource(grain.sources.RandomAccessDataSource):
        def __init__(self, data):
            self._data = data

        def __len__(self):
            return len(self._data)

        def __getitem__(self, idx):
            return self._data[idx]

    source = MySource(["a", "b", "c", "d", "e"])
    ds = grain.MapDataset.source(source)
    print(ds[1])  # "b"
    print(list(ds))  # ['a', 'b', 'c', 'd', 'e']

    assert lines(capsys) == ["3", "10", "b", "['a', 'b', 'c', 'd', 'e']"]


def test_range_counts_like_pythons_range(capsys: pytest.CaptureFixture[str]) -> None:
    ds = grain.MapDataset.range(10)
    print(list(ds))  # [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]

    ds = grain.MapDataset.range(2, 8, 2)
    print(list(ds))  # [2, 4, 6]

    assert lines(capsys) == ["[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]", "[2, 4, 6]"]


def test_shuffle_is_deterministic_and_derives_its_seed(capsys: pytest.CaptureFixture[str]) -> None:
    ds = grain.MapDataset.range(10).shuffle(seed=42)
    print(list(ds))  # e.g. [3, 7, 0, 5, 9, 1, 6, 2, 8, 4]  (deterministic)

    # Pipeline-level seed: each downstream random op derives its own unique seed
    ds = (
        grain.MapDataset.range(10).seed(42).shuffle()  # derives seed from pipeline seed
    )
    print(set(ds) == set(range(10)))  # True

    # The document's order is an example; this is the order of the reference.
    assert lines(capsys) == ["[8, 6, 7, 9, 0, 5, 1, 2, 4, 3]", "True"]
    assert list(ds) == [1, 7, 6, 9, 0, 8, 4, 5, 3, 2]


def test_map_takes_functions_and_transforms(capsys: pytest.CaptureFixture[str]) -> None:
    # Lambda shorthand
    ds = grain.MapDataset.range(5).map(lambda x: x**2)
    print(list(ds))  # [0, 1, 4, 9, 16]

    # Class-based transform (recommended for serialization / DataLoader use)
    @dataclasses.dataclass
    class Normalize(grain.transforms.Map):
        mean: float
        std: float

        def map(self, element):
            return (element - self.mean) / self.std

    ds = grain.MapDataset.source([0.0, 1.0, 2.0, 3.0]).map(Normalize(mean=1.5, std=1.0))
    print(list(ds))  # [-1.5, -0.5, 0.5, 1.5]

    assert lines(capsys) == ["[0, 1, 4, 9, 16]", "[-1.5, -0.5, 0.5, 1.5]"]


def test_random_map_draws_the_same_in_every_run(capsys: pytest.CaptureFixture[str]) -> None:
    # Adds a random integer in [0, 5) to each element
    ds = grain.MapDataset.range(5).random_map(
        lambda x, rng: x + rng.integers(0, 5),
        seed=0,
    )
    print(list(ds))  # deterministic, e.g. [2, 4, 4, 6, 5]
    assert [int(x) for x in ds] == [0, 5, 3, 6, 7]
    assert lines(capsys) == [str([np.int64(x) for x in (0, 5, 3, 6, 7)])]

    # Class-based with numpy image augmentation
    @dataclasses.dataclass
    class RandomFlip(grain.transforms.RandomMap):
        def random_map(self, image: np.ndarray, rng: np.random.Generator) -> np.ndarray:
            if rng.random() > 0.5:
                return np.flip(image, axis=1)
            return image

    ds = grain.MapDataset.source(images).seed(123).random_map(RandomFlip())

    flipped = [not np.array_equal(after, before) for after, before in zip(ds, images, strict=True)]
    assert flipped == [False, False, False, False, True, False, False, True]


def test_map_with_index_passes_the_index(capsys: pytest.CaptureFixture[str]) -> None:
    ds = grain.MapDataset.source(["a", "b", "c", "d"])
    ds = ds.map_with_index(lambda i, x: f"{x}_{i}")
    print(list(ds))  # ['a_0', 'b_1', 'c_2', 'd_3']

    assert lines(capsys) == ["['a_0', 'b_1', 'c_2', 'd_3']"]


def test_filter_yields_none_by_index_and_is_skipped_by_iteration(
    capsys: pytest.CaptureFixture[str],
) -> None:
    ds = grain.MapDataset.range(10).filter(lambda x: x % 2 == 0)
    print(ds[0])  # 0
    print(ds[1])  # None  (1 is filtered out)
    print(list(ds))  # [0, 2, 4, 6, 8]  (Nones skipped during iteration)
    assert lines(capsys) == ["0", "None", "[0, 2, 4, 6, 8]"]

    # When filter and batch are both needed, filter first then convert to IterDataset
    ds = (
        grain.MapDataset.range(20)
        .filter(lambda x: x % 3 == 0)
        .to_iter_dataset()
        .batch(batch_size=3)
    )
    for batch in ds:
        print(batch)  # e.g. array([0, 3, 6])

    assert lines(capsys) == ["[0 3 6]", "[ 9 12 15]", "[18]"]


def test_batch_stacks_elements_or_calls_a_batch_function(
    capsys: pytest.CaptureFixture[str],
) -> None:
    ds = grain.MapDataset.range(10).batch(batch_size=3)
    print(list(ds))
    # [array([0, 1, 2]), array([3, 4, 5]), array([6, 7, 8]), array([9])]

    # Drop the final partial batch
    ds = grain.MapDataset.range(10).batch(batch_size=3, drop_remainder=True)
    print(list(ds))
    # [array([0, 1, 2]), array([3, 4, 5]), array([6, 7, 8])]

    assert lines(capsys) == [
        "[array([0, 1, 2]), array([3, 4, 5]), array([6, 7, 8]), array([9])]",
        "[array([0, 1, 2]), array([3, 4, 5]), array([6, 7, 8])]",
    ]

    # Custom batch function (e.g., build a dict-of-arrays batch)
    def dict_batch(elements):
        import numpy as np

        return {"values": np.stack([e["values"] for e in elements])}

    ds = grain.MapDataset.source([{"values": np.array([i])} for i in range(6)])
    ds = ds.batch(batch_size=2, batch_fn=dict_batch)

    assert [batch["values"].tolist() for batch in ds] == [[[0], [1]], [[2], [3]], [[4], [5]]]


def test_repeat_is_finite_or_infinite(capsys: pytest.CaptureFixture[str]) -> None:
    def import_sys_maxsize():
        return sys.maxsize

    # Finite repeat
    ds = grain.MapDataset.range(3).repeat(2)
    print(list(ds))  # [0, 1, 2, 0, 1, 2]

    # Infinite repeat for training loops
    ds = grain.MapDataset.range(5).shuffle(seed=0).repeat()
    print(len(ds) == import_sys_maxsize())  # True (sys.maxsize)

    assert lines(capsys) == ["[0, 1, 2, 0, 1, 2]", "True"]
    assert [ds[i] for i in range(10)] == [0, 4, 1, 2, 3, 1, 2, 3, 0, 4]


def test_an_infinite_repeat_feeds_a_training_loop() -> None:
    max_steps = 70
    steps = []
    train_step = steps.append

    def preprocess_fn(x):
        return x * 2

    # Practical infinite training loop
    ds = (
        grain.MapDataset.range(1000)
        .shuffle(seed=42)
        .map(preprocess_fn)
        .batch(batch_size=32)
        .repeat()
    )
    for step, batch in enumerate(ds):
        if step >= max_steps:
            break
        train_step(batch)

    assert len(steps) == 70
    # 1000 elements are 31 batches of 32 and one of 8.
    assert [len(batch) for batch in steps[30:34]] == [32, 8, 32, 32]
    for epoch in (steps[:32], steps[32:64]):
        assert sorted(np.concatenate(epoch).tolist()) == list(range(0, 2000, 2))
    assert steps[0].tolist() != steps[32].tolist()


def test_slices_shard_a_dataset(capsys: pytest.CaptureFixture[str]) -> None:
    ds = grain.MapDataset.range(10)

    # Manual sharding across 4 hosts
    shard_index = 0  # jax.process_index()
    shard_count = 4  # jax.process_count()
    sharded = ds[shard_index::shard_count]
    print(list(sharded))  # [0, 4, 8]
    assert lines(capsys) == ["[0, 4, 8]"]

    # Or equivalently
    sharded = ds.slice(slice(shard_index, None, shard_count))

    assert list(sharded) == [0, 4, 8]


def test_mix_interleaves_by_weights(capsys: pytest.CaptureFixture[str]) -> None:
    ds1 = grain.MapDataset.range(5)  # [0, 1, 2, 3, 4]
    ds2 = grain.MapDataset.range(5, 8)  # [5, 6, 7]

    # Uniform interleaving
    ds = grain.MapDataset.mix([ds1, ds2])
    print(list(ds))  # [0, 5, 1, 6, 2, 7]
    assert lines(capsys) == ["[0, 5, 1, 6, 2, 7]"]

    # Weighted mixing (70% from ds1, 30% from ds2)
    ds1_large = grain.MapDataset.range(100)
    ds2_large = grain.MapDataset.range(100, 200)
    ds = grain.MapDataset.mix([ds1_large, ds2_large], weights=[0.7, 0.3])

    assert len(ds) == 142
    assert list(ds)[:12] == [0, 1, 2, 100, 3, 4, 101, 5, 6, 102, 7, 8]
    assert sum(x < 100 for x in list(ds)[:100]) == 70


def test_concatenate_appends_datasets(capsys: pytest.CaptureFixture[str]) -> None:
    ds1 = grain.MapDataset.range(3)  # [0, 1, 2]
    ds2 = grain.MapDataset.range(3, 7)  # [3, 4, 5, 6]

    ds = grain.MapDataset.concatenate([ds1, ds2])
    print(list(ds))  # [0, 1, 2, 3, 4, 5, 6]

    assert lines(capsys) == ["[0, 1, 2, 3, 4, 5, 6]"]


def test_pipe_passes_the_dataset_to_a_function(capsys: pytest.CaptureFixture[str]) -> None:
    def add_noise_dataset(ds, noise_std, seed):
        return ds.random_map(
            lambda x, rng: x + rng.normal(scale=noise_std),
            seed=seed,
        )

    ds = (
        grain.MapDataset.range(10)
        .pipe(add_noise_dataset, noise_std=0.1, seed=7)
        .batch(batch_size=5)
    )
    print(list(ds))

    assert lines(capsys) == [
        "[array([-0.14035643,  0.72606157,  1.8724421 ,  3.07634098,  3.92633579]), "
        "array([5.09279587, 5.95550849, 7.00399006, 8.04562997, 9.05381701])]"
    ]


def test_apply_applies_transforms_in_order(capsys: pytest.CaptureFixture[str]) -> None:
    @dataclasses.dataclass
    class AddOne(grain.transforms.Map):
        def map(self, x):
            return x + 1

    pipeline = [
        AddOne(),
        grain.transforms.Batch(batch_size=3),
    ]

    ds = grain.MapDataset.range(9).apply(pipeline)
    print(list(ds))
    # [array([1, 2, 3]), array([4, 5, 6]), array([7, 8, 9])]

    assert lines(capsys) == ["[array([1, 2, 3]), array([4, 5, 6]), array([7, 8, 9])]"]
