"""A small dataset, written to disk by a real TFDS builder."""

from __future__ import annotations

import io
import struct
import zlib

import numpy as np
import pytest
import tensorflow_datasets as tfds

SIZES = {"train": 24, "test": 5}


def png(value: int) -> bytes:
    """Return a grey PNG of 4 by 4 pixels."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return (
            struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        )

    header = struct.pack(">IIBBBBB", 4, 4, 8, 0, 0, 0, 0)
    pixels = zlib.compress((b"\0" + bytes([value] * 4)) * 4)
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", pixels) + chunk(b"IEND", b"")
    )


class TinyPictures(tfds.core.GeneratorBasedBuilder):
    VERSION = tfds.core.Version("1.2.0")

    def _info(self):
        return tfds.core.DatasetInfo(
            builder=self,
            features=tfds.features.FeaturesDict(
                {
                    "image": tfds.features.Image(shape=(4, 4, 1)),
                    "label": tfds.features.ClassLabel(num_classes=3),
                    "vector": tfds.features.Tensor(shape=(2,), dtype=np.float32),
                    "text": tfds.features.Text(),
                }
            ),
        )

    def _split_generators(self, dl_manager):
        return {name: self._generate_examples(size) for name, size in SIZES.items()}

    def _generate_examples(self, size):
        for number in range(size):
            yield (
                number,
                {
                    "image": io.BytesIO(png(number)),
                    "label": number % 3,
                    "vector": np.array([number, number + 0.5], np.float32),
                    "text": f"picture {number}",
                },
            )


@pytest.fixture(scope="session")
def data_dir(tmp_path_factory) -> str:
    directory = str(tmp_path_factory.mktemp("tfds"))
    tfds.display_progress_bar(False)
    TinyPictures(data_dir=directory, file_format="array_record").download_and_prepare()
    return directory


@pytest.fixture
def skip_image() -> dict:
    return {"image": tfds.decode.SkipDecoding()}
