"""The DataLoader tutorial's cells that need nothing but grain."""

from __future__ import annotations

import types
from typing import Any

import numpy as np
import pytest

import grain.python as grain

METADATA_OF_TEN_RECORDS = [
    f"RecordMetadata(index={index}, record_key={key}, rng=Generator(Philox))"
    for index, key in enumerate([0, 4, 1, 2, 3, 1, 2, 3, 0, 4])
]


def _resize(image: np.ndarray, dsize: tuple[int, int], interpolation: int) -> np.ndarray:
    """Return the nearest pixels; replaces OpenCV, so that the tutorial's transform runs without it."""
    rows = np.arange(dsize[1]) * image.shape[0] // dsize[1]
    columns = np.arange(dsize[0]) * image.shape[1] // dsize[0]
    return image[rows][:, columns]


cv2 = types.SimpleNamespace(resize=_resize, INTER_LINEAR=1)


class Images:
    """Five records; each read returns a new object, like a file."""

    def __len__(self) -> int:
        return 5

    def __getitem__(self, index: int) -> dict[str, Any]:
        image = np.full((30, 40, 3), index, np.uint8)
        return {"image": image, "file_name": f"{index}.jpg", "label": index + 10}

    def __repr__(self) -> str:
        return "Images()"


source = Images()


class ResizeAndCrop(grain.MapTransform):
    def map(self, element: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        image = element["image"]
        image = cv2.resize(image, dsize=(256, 256), interpolation=cv2.INTER_LINEAR)
        image = image[:224, :224]
        element["image"] = image
        return element


def make_index_sampler() -> grain.IndexSampler:
    return grain.IndexSampler(
        num_records=5,
        num_epochs=2,
        shard_options=grain.ShardOptions(shard_index=0, shard_count=1, drop_remainder=True),
        shuffle=True,
        seed=0,
    )


def test_iterating_a_sampler_prints_its_metadata(capsys: pytest.CaptureFixture[str]) -> None:
    # Setting `num_records` to 5 to limit results.
    # For full dataset, set to `len(data_source)`.
    index_sampler_example = grain.IndexSampler(
        num_records=5,
        num_epochs=2,
        shard_options=grain.ShardOptions(shard_index=0, shard_count=1, drop_remainder=True),
        shuffle=True,
        seed=0,
    )

    # Iterator is consumed.
    for record_metadata in index_sampler_example:
        print(record_metadata)

    assert capsys.readouterr().out.splitlines() == METADATA_OF_TEN_RECORDS

    # Create new iterator.
    index_sampler = grain.IndexSampler(
        num_records=5,
        num_epochs=2,
        shard_options=grain.ShardOptions(shard_index=0, shard_count=1, drop_remainder=True),
        shuffle=True,
        seed=0,
    )

    assert [str(metadata) for metadata in index_sampler] == METADATA_OF_TEN_RECORDS


def test_a_loader_yields_transformed_elements() -> None:
    transformations = [ResizeAndCrop()]

    data_loader = grain.DataLoader(
        data_source=source,
        operations=transformations,
        sampler=make_index_sampler(),
        worker_count=0,
    )

    shown = []
    for element in data_loader:
        shown.append((element["image"].shape, int(element["image"][0, 0, 0])))

    assert shown == [((224, 224, 3), key) for key in [0, 4, 1, 2, 3, 1, 2, 3, 0, 4]]


def test_a_loader_can_be_read_in_two_parts(capsys: pytest.CaptureFixture[str]) -> None:
    data_loader = grain.DataLoader(
        data_source=source,
        operations=[ResizeAndCrop()],
        sampler=make_index_sampler(),
        worker_count=0,
    )

    data_iter = iter(data_loader)

    num_steps = 5

    # Read some elements.
    for i in range(num_steps):
        x = next(data_iter)
        print(i, x["file_name"], x["label"])

    # Read more elements and advance the iterator
    for i in range(5, 10):
        x = next(data_iter)
        print(i, x["file_name"], x["label"])

    assert capsys.readouterr().out.splitlines() == [
        f"{i} {key}.jpg {key + 10}" for i, key in enumerate([0, 4, 1, 2, 3, 1, 2, 3, 0, 4])
    ]


def test_read_options_apply_per_worker() -> None:
    # Following configuration makes 8*10=80 threads reading data.
    data_loader = grain.DataLoader(
        data_source=source,
        sampler=grain.IndexSampler(
            num_records=len(source),
            num_epochs=2,
            shard_options=grain.NoSharding(),
            shuffle=True,
            seed=0,
        ),
        worker_count=10,
        read_options=grain.ReadOptions(num_threads=8, prefetch_buffer_size=500),
    )

    # Made, not read: ten processes with eight threads each are for a larger machine.
    assert data_loader.multiprocessing_options.num_workers == 10
