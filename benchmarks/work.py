"""What the pipelines compute and where their elements come from, the same for every peer."""

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
    """Next to nothing: what remains is the loader's own cost."""
    return x + 1


def jitter(x: Any, rng: np.random.Generator) -> Any:
    """A random draw for each element."""
    return x + rng.integers(0, 5)


def is_even(x: Any) -> bool:
    """Keeps every second element."""
    return bool(x % 2 == 0)


def heavy(x: Any) -> np.ndarray:
    """Python arithmetic that holds the interpreter's lock, as much preprocessing does; 4 KiB out."""
    total, x = 0, int(x)
    for step in range(HEAVY_STEPS):
        total += step * x
    return np.full((1024,), total % 7, np.int32)


def heavy_batch(xs: Any) -> np.ndarray:
    """The heavy function over a whole batch."""
    return np.stack([heavy(x) for x in xs])


def normalize(element: Element) -> Element:
    """Bytes of an image as numbers between 0 and 1."""
    return {
        "image": element["image"].astype(np.float32) * np.float32(1 / 255),
        "label": element["label"],
    }


def decode(encoded: bytes) -> np.ndarray:
    """A JPEG file's bytes as an array, cut to the middle 224 by 224."""
    from PIL import Image

    with Image.open(io.BytesIO(encoded)) as image:
        return crop(np.asarray(image.convert("RGB")))


def crop(image: np.ndarray) -> np.ndarray:
    """The middle 224 by 224 of an image."""
    top, left = ((side - IMAGE_SIDE) // 2 for side in image.shape[:2])
    return np.ascontiguousarray(image[top : top + IMAGE_SIDE, left : left + IMAGE_SIDE])


def read_image(path: str) -> np.ndarray:
    """An image file, read and decoded."""
    return decode(pathlib.Path(path).read_bytes())


def read_array(path: str) -> np.ndarray:
    """A `.npy` file of one small array."""
    array: np.ndarray = np.load(path)
    return array


def token_ids(line: str) -> np.ndarray:
    """Words of the made-up language (`w17`) as numbers."""
    return np.asarray([int(word[1:]) for word in line.split()], np.int32)


def tokenize(line: str) -> dict[str, np.ndarray]:
    """A line of text as a packable element."""
    return {"tokens": token_ids(line)}


# --- sources -----------------------------------------------------------------------------------


class Ints:
    """The numbers below n, one Python call each."""

    def __init__(self, n: int) -> None:
        self.n = n

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, index: Any) -> Any:
        return index

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.n})"


class Images(Ints):
    """Images that cost nothing to make and much to move."""

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
    """Each read waits, as for an answer from far away."""

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
    """Token arrays of 16 to 1500 tokens, for packing."""
    lengths = np.random.default_rng(0).integers(16, 1500, 4000)
    return [{"tokens": np.arange(1, n + 1, dtype=np.int32)} for n in lengths]


def labels() -> list[dict[str, Any]]:
    """A list of small Python objects, about 100 MB of them, as a data set kept in memory often is."""
    return [{"id": i, "name": f"record number {i:08d}", "tags": [i, i + 1]} for i in range(200_000)]


def label_id(element: Element) -> int:
    """The number of a record of `labels`."""
    return int(element["id"])
