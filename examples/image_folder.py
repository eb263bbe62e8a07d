"""A folder of many small picture files, one folder for each class, decoded in worker processes.

Install: pip install ./packages/grain-core
Run:     python examples/image_folder.py
"""

from __future__ import annotations

import pathlib
import tempfile

import numpy as np

import grain

SIZE, CROP = 32, 24


def make_folder(folder: pathlib.Path) -> None:
    """Write 60 pictures of three colours as PPM files: a line of text, then the pixels."""
    rng = np.random.default_rng(0)
    for channel, name in enumerate(["red", "green", "blue"]):
        (folder / name).mkdir()
        for number in range(20):
            pixels = rng.integers(0, 80, (SIZE, SIZE, 3), np.uint8)
            pixels[..., channel] += 160
            header = f"P6 {SIZE} {SIZE} 255\n".encode()
            (folder / name / f"{number:03}.ppm").write_bytes(header + pixels.tobytes())


class ImageFolder:
    """Pictures and the numbers of their folders; files are read on access."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.classes = sorted(path.name for path in folder.iterdir())
        self._files = sorted(folder.glob("*/*.ppm"))

    def __len__(self) -> int:
        return len(self._files)

    def __getitem__(self, index: int) -> dict:
        file = self._files[index]
        header, pixels = file.read_bytes().split(b"\n", 1)
        width, height = map(int, header.split()[1:3])
        image = np.frombuffer(pixels, np.uint8).reshape(height, width, 3)
        return {"image": image, "label": self.classes.index(file.parent.name)}


class CropAndScale(grain.transforms.RandomMap):
    """A random crop of the picture, as floats between 0 and 1."""

    def random_map(self, element: dict, rng: np.random.Generator) -> dict:
        """Crop one picture; `rng` makes the crop the same in every run, for any number of workers."""
        top, left = rng.integers(0, SIZE - CROP + 1, 2)
        crop = element["image"][top : top + CROP, left : left + CROP]
        return element | {"image": crop.astype(np.float32) / 255}


def main(folder: pathlib.Path) -> None:
    """Read the folder with two worker processes."""
    make_folder(folder)
    source = ImageFolder(folder)
    print(f"{len(source)} files of the classes {source.classes}")
    ds = (
        grain.MapDataset.source(source)
        .seed(1)
        .shuffle()
        .random_map(CropAndScale())
        .batch(16)
        .to_iter_dataset()
        .mp_prefetch(grain.MultiprocessingOptions(num_workers=2))
    )
    with iter(ds) as batches:
        for batch in batches:
            names = [source.classes[label] for label in batch["label"][:4]]
            print(batch["image"].shape, *names, "...")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        main(pathlib.Path(temporary))
