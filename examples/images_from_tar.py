"""Pictures in a tar file, read at random without unpacking it, with random augmentation in workers.

The positions of all members are read once; after that a picture is one read at its offset.

Install: pip install ./packages/grain-core
Run:     python examples/images_from_tar.py
"""

from __future__ import annotations

import io
import os
import pathlib
import tarfile
import tempfile

import numpy as np

import grain

SIZE, CROP = 32, 24


def make_tar(path: pathlib.Path) -> None:
    """Write 48 pictures of two classes as PPM files: a line of text, then the pixels."""
    rng = np.random.default_rng(0)
    with tarfile.open(path, "w") as tar:
        for number in range(48):
            name = ("dark", "light")[number % 2]
            pixels = rng.integers(0, 100, (SIZE, SIZE, 3), np.uint8) + np.uint8(150 * (number % 2))
            data = f"P6 {SIZE} {SIZE} 255\n".encode() + pixels.tobytes()
            member = tarfile.TarInfo(f"{name}/{number:03}.ppm")
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))


class TarImages:
    """The bytes of members and the numbers of their folders; each read is one `pread`."""

    def __init__(self, path: pathlib.Path) -> None:
        self._path = str(path)
        with tarfile.open(path) as tar:
            members = [member for member in tar if member.isfile()]
        self.classes = sorted({os.path.dirname(member.name) for member in members})
        self._places = [
            (m.offset_data, m.size, self.classes.index(os.path.dirname(m.name))) for m in members
        ]

    def __len__(self) -> int:
        return len(self._places)

    def __getitem__(self, index: int) -> dict:
        offset, size, label = self._places[index]
        with open(self._path, "rb") as file:
            return {"bytes": os.pread(file.fileno(), size, offset), "label": label}

    def __repr__(self) -> str:
        return f"TarImages({os.path.basename(self._path)!r})"


def decode(element: dict) -> dict:
    """Replace the bytes of a file by its pixels."""
    header, pixels = element["bytes"].split(b"\n", 1)
    width, height = map(int, header.split()[1:3])
    image = np.frombuffer(pixels, np.uint8).reshape(height, width, 3)
    return {"image": image, "label": element["label"]}


def augment(element: dict, rng: np.random.Generator) -> dict:
    """Crop at random, flip half of the pictures, and change the brightness a little."""
    top, left = rng.integers(0, SIZE - CROP + 1, 2)
    image = element["image"][top : top + CROP, left : left + CROP]
    image = image[:, ::-1] if rng.random() < 0.5 else image
    brightness = np.float32(rng.uniform(0.9, 1.1))
    return element | {"image": image.astype(np.float32) / 255 * brightness}


def main(folder: pathlib.Path) -> None:
    """Read two epochs with two worker processes, and once more without."""
    path = folder / "pictures.tar"
    make_tar(path)
    source = TarImages(path)
    print(f"{len(source)} pictures of the classes {source.classes}")
    ds = grain.MapDataset.source(source).seed(1).shuffle().map(decode).random_map(augment).batch(16)
    for number, epoch in enumerate(ds.epochs(2)):
        stream = epoch.to_iter_dataset()
        with iter(stream.mp_prefetch(num_workers=2)) as iterator:
            batches = list(iterator)
        same = all(
            np.array_equal(a["image"], b["image"]) for a, b in zip(batches, stream, strict=True)
        )
        first = batches[0]
        print(f"epoch {number}: labels {first['label'].tolist()}, {first['image'].shape}")
        print(f"epoch {number}: the same without workers: {same}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        main(pathlib.Path(temporary))
