"""Functions and sources of the pipelines, the same for every peer."""

from __future__ import annotations

import io
import pathlib
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

IMAGE_SIDE = 224
ROW_LENGTH = 2048
TEXT_ROW_LENGTH = 1024
LARGE_SIDE = 1024
READ_SECONDS = 0.002
HEAVY_STEPS = 400

Element = dict[str, Any]


# --- functions ---------------------------------------------------------------------------------


def add_one(x: Any) -> Any:
    """Add one: so little work that the loader's cost remains."""
    return x + 1


def jitter(x: Any, rng: np.random.Generator) -> Any:
    """Add a random number."""
    return x + rng.integers(0, 5)


def is_even(x: Any) -> bool:
    """Return whether a number is even."""
    return bool(x % 2 == 0)


def heavy(x: Any) -> np.ndarray:
    """Compute in Python with the interpreter lock, as much preprocessing does; return 4 KiB."""
    total, x = 0, int(x)
    for step in range(HEAVY_STEPS):
        total += step * x
    return np.full((1024,), total % 7, np.int32)


def heavy_batch(xs: Any) -> np.ndarray:
    """Apply the heavy function to each element of a batch."""
    return np.stack([heavy(x) for x in xs])


def normalize(element: Element) -> Element:
    """Scale the bytes of an image to numbers between 0 and 1."""
    return {
        "image": element["image"].astype(np.float32) * np.float32(1 / 255),
        "label": element["label"],
    }


def decode(encoded: bytes) -> np.ndarray:
    """Decode a JPEG file's bytes and crop the image."""
    from PIL import Image

    with Image.open(io.BytesIO(encoded)) as image:
        return crop(np.asarray(image.convert("RGB")))


def crop(image: np.ndarray) -> np.ndarray:
    """Return the central 224 by 224 pixels of an image."""
    top, left = ((side - IMAGE_SIDE) // 2 for side in image.shape[:2])
    return np.ascontiguousarray(image[top : top + IMAGE_SIDE, left : left + IMAGE_SIDE])


def read_image(path: str) -> np.ndarray:
    """Read and decode an image file."""
    return decode(pathlib.Path(path).read_bytes())


def read_array(path: str) -> np.ndarray:
    """Read a `.npy` file of one small array."""
    array: np.ndarray = np.load(path)
    return array


def token_ids(line: str) -> np.ndarray:
    """Return words of the artificial language (`w17`) as numbers."""
    return np.asarray([int(word[1:]) for word in line.split()], np.int32)


def tokenize(line: str) -> dict[str, np.ndarray]:
    """Return a line of text as a packable element."""
    return {"tokens": token_ids(line)}


# --- sources -----------------------------------------------------------------------------------


class Ints:
    """The numbers below n, with one Python call for each."""

    def __init__(self, n: int) -> None:
        self.n = n

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, index: Any) -> Any:
        return index

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.n})"


class Images(Ints):
    """Images that are cheap to create and expensive to move."""

    def __init__(self, n: int) -> None:
        super().__init__(n)
        shape = (IMAGE_SIDE, IMAGE_SIDE, 3)
        self.pixels = np.random.default_rng(0).integers(0, 255, shape, dtype=np.uint8)

    def __getitem__(self, index: Any) -> Element:
        return {"image": self.pixels, "label": np.int64(index)}


class LargeArrays(Ints):
    """Arrays of 4 MiB."""

    def __init__(self, n: int) -> None:
        super().__init__(n)
        self.values = np.random.default_rng(0).random((LARGE_SIDE, LARGE_SIDE), dtype=np.float32)

    def __getitem__(self, index: Any) -> np.ndarray:
        return self.values


class Remote(Ints):
    """The numbers below n; each read waits, as for remote storage."""

    def __getitem__(self, index: Any) -> Any:
        time.sleep(READ_SECONDS)
        return index


class Paths:
    """File names."""

    def __init__(self, paths: Sequence[str]) -> None:
        self.paths = list(paths)

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> str:
        return self.paths[index]

    def __repr__(self) -> str:
        return f"Paths({len(self.paths)} files)"


def documents() -> list[dict[str, np.ndarray]]:
    """Return token arrays of 16 to 1500 tokens, for packing."""
    lengths = np.random.default_rng(0).integers(16, 1500, 4000)
    return [{"tokens": np.arange(1, n + 1, dtype=np.int32)} for n in lengths]


def labels() -> list[dict[str, Any]]:
    """Return a list of small Python objects, about 100 MB, as in-memory datasets often are."""
    return [{"id": i, "name": f"record number {i:08d}", "tags": [i, i + 1]} for i in range(200_000)]


def label_id(element: Element) -> int:
    """Return the number of a record of `labels`."""
    return int(element["id"])
