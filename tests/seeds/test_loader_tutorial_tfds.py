"""The DataLoader tutorial's cells on TFDS, OpenCV and Orbax, over a few pictures that stand for the data.

TFDS's own builder of the dataset writes them, under its name, in its layout and with its labels;
only what it would have downloaded is made here. The snippets differ by the folders they name.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import grain.python as grain

cv2 = pytest.importorskip("cv2")
tfds = pytest.importorskip("tensorflow_datasets")

PICTURES = 7
# Keys of the tutorial's sampler: 5 records, 2 epochs, shuffled with seed 0.
KEYS = [0, 4, 1, 2, 3, 1, 2, 3, 0, 4]


def pictures() -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the examples that the builder's generator would make of the downloaded files."""
    for number in range(PICTURES):
        image = np.full((300, 200 + number, 3), 30 * number, np.uint8)
        encoded, jpeg = cv2.imencode(".jpg", image)
        assert encoded
        name = f"picture_{number}.jpg"
        yield (
            name,
            {"image": io.BytesIO(jpeg.tobytes()), "label": 100 + number, "file_name": name},
        )


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return a folder with the prepared dataset."""
    folder = str(tmp_path_factory.mktemp("tfds"))
    tfds.display_progress_bar(False)
    builder = tfds.builder("imagenet_a", data_dir=folder, file_format="array_record")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(builder), "_split_generators", lambda self, _: {"test": pictures()})
        builder.download_and_prepare()
    return folder


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


def test_a_loader_reads_a_tfds_source(data_dir: str, capsys: pytest.CaptureFixture[str]) -> None:
    # We use a small version of ImageNet data to spare disk and network
    # usage for the demo. Prefer "imagenet2012"'s "train" split for a
    # complete dataset.
    source = tfds.data_source("imagenet_a", split="test", data_dir=data_dir)

    print(f"# records: {len(source)}")

    print(f"First record:\n{source[0]}")
    out = capsys.readouterr().out
    assert out.startswith(f"# records: {PICTURES}\nFirst record:\n{{")
    assert "picture_" in out
    names = [source[key]["file_name"].decode() for key in range(PICTURES)]
    assert sorted(names) == [f"picture_{number}.jpg" for number in range(PICTURES)]

    transformations = [ResizeAndCrop()]

    data_loader = grain.DataLoader(
        data_source=source,
        operations=transformations,
        sampler=make_index_sampler(),
        worker_count=0,
    )

    seen = []
    for element in data_loader:
        assert element["image"].shape == (224, 224, 3)
        assert element["image"].dtype == np.uint8
        number = int(element["file_name"].decode().removesuffix(".jpg").split("_")[1])
        assert element["label"] == 100 + number
        assert abs(float(element["image"].mean()) - 30 * number) < 3
        seen.append(element["file_name"].decode())
    assert seen == [names[key] for key in KEYS]


def test_orbax_restores_a_loader_over_a_tfds_source(
    data_dir: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ocp = pytest.importorskip("orbax.checkpoint")
    source = tfds.data_source("imagenet_a", split="test", data_dir=data_dir)
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

    mngr = ocp.CheckpointManager(tmp_path / "orbax")

    # Save the checkpoint
    assert mngr.save(step=num_steps, args=grain.GrainCheckpointSave(data_iter), force=True)
    # Checkpoint saving in Orbax is asynchronous by default, so we'll wait until
    # finished before examining checkpoint.
    mngr.wait_until_finished()

    first_half = capsys.readouterr().out
    # Read more elements and advance the iterator
    for i in range(5, 10):
        x = next(data_iter)
        print(i, x["file_name"], x["label"])
    second_half = capsys.readouterr().out

    # Restore iterator from previously saved checkpoint
    mngr.restore(num_steps, args=grain.GrainCheckpointRestore(data_iter))

    # Iterator should be set back to start from 5.
    for i in range(5, 10):
        x = next(data_iter)
        print(i, x["file_name"], x["label"])

    assert capsys.readouterr().out == second_half
    assert len(first_half.splitlines()) == len(second_half.splitlines()) == 5
    expected = source[KEYS[5]]
    assert second_half.splitlines()[0] == f"5 {expected['file_name']} {expected['label']}"
    mngr.close()
