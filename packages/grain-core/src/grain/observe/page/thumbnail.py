"""Small pictures of arrays that look like images: which arrays do, and their pixels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

# Shorter sides than this are rather a table of numbers than an image.
_LEAST_SIDE = 8
# A matrix of floats is drawn from this size on.
_LEAST_MATRIX_SIDE = 16
_LONGEST_RATIO = 40
_CHANNELS = (1, 3, 4)
# The brightest pixel of an image of floats from 0 to 255; others are scaled by their own range.
_LEAST_BRIGHTEST = 100
# Pixels that are not finite.
_NOT_FINITE = (214, 51, 132)


@dataclass(frozen=True)
class ImageLayout:
    """How an array is read as images.

    Attributes:
        batched: The number of leading dimensions that count images.
        channels: The position of the channels among the dimensions of one image; None without.
    """

    batched: int
    channels: int | None


@dataclass(frozen=True)
class Thumbnail:
    """The pixels of a small picture.

    Attributes:
        pixels: An array of bytes, (height, width, channels).
        size: The width and height of the image itself.
        note: How values were scaled to colours, and pixels that are not finite; empty for bytes.
    """

    pixels: NDArray[np.uint8]
    size: tuple[int, int]
    note: str


def image_layout(shape: tuple[int, ...], dtype: np.dtype[Any]) -> ImageLayout | None:
    """Return how an array of a shape and type is read as images; None if it is not an image.

    >>> image_layout((32, 28, 28, 3), np.dtype("uint8"))
    ImageLayout(batched=1, channels=2)
    >>> image_layout((3, 64, 64), np.dtype("float32"))
    ImageLayout(batched=0, channels=0)
    >>> image_layout((32, 128), np.dtype("int64"))
    """
    if dtype.kind not in "biuf" and not _is_extended_float(dtype):
        return None
    if not 2 <= len(shape) <= 5 or 0 in shape:
        return None
    if len(shape) == 2:
        matrix = dtype.kind not in "iu" and dtype.kind != "b"
        if dtype == np.uint8 or dtype.kind == "b" or matrix:
            least = _LEAST_MATRIX_SIDE if matrix else _LEAST_SIDE
            return ImageLayout(0, None) if _is_plane(shape, least) else None
        return None
    if shape[-1] in _CHANNELS and _is_plane(shape[-3:-1]):
        return ImageLayout(len(shape) - 3, 2)
    if shape[-3] in _CHANNELS and _is_plane(shape[-2:]):
        return ImageLayout(len(shape) - 3, 0)
    if len(shape) == 3 and dtype.kind in "ub" and dtype.itemsize == 1 and _is_plane(shape[1:]):
        return ImageLayout(1, None)
    return None


def _is_plane(sides: tuple[int, ...], least: int = _LEAST_SIDE) -> bool:
    return min(sides) >= least and max(sides) <= _LONGEST_RATIO * min(sides)


def _is_extended_float(dtype: np.dtype[Any]) -> bool:
    return "float" in dtype.name and dtype.kind == "V"  # bfloat16 and others of ml_dtypes


def thumbnail(image: NDArray[Any], channels: int | None, side: int) -> Thumbnail:
    """Return a small picture of one image.

    Args:
        image: An array of two dimensions, or of three with channels.
        channels: The position of the channels; None without.
        side: The most pixels of a side of the picture.
    """
    if channels is None:
        image = image[..., np.newaxis]
    elif channels == 0:
        image = np.moveaxis(image, 0, -1)
    height, width = image.shape[:2]
    small = _shrink(image, side)
    colours, note = _as_bytes(small)
    return Thumbnail(colours, (width, height), note)


def _shrink(image: NDArray[Any], side: int) -> NDArray[Any]:
    """Return an image whose sides have `side` pixels at most: means of cells of the original pixels.

    Of a large image only some pixels of each cell are read, so the cost does not depend on its size.
    """
    factor = -(-max(image.shape[:2]) // side)
    if factor <= 1:
        return image
    step = max(1, factor // 4)
    cell = -(-factor // step)
    image = image[::step, ::step]
    if min(image.shape[:2]) < cell:  # A side of less than one cell.
        return image[::cell, ::cell]
    height, width = (length // cell for length in image.shape[:2])
    cells = image[: height * cell, : width * cell].reshape(height, cell, width, cell, -1)
    with np.errstate(all="ignore"):
        wide = np.float64 if image.dtype == np.float64 else np.float32
        mean: NDArray[Any] = cells.astype(wide).mean(axis=(1, 3))
    return np.rint(mean).astype(image.dtype) if image.dtype.kind in "iu" else mean


def _as_bytes(image: NDArray[Any]) -> tuple[NDArray[np.uint8], str]:
    """Return the colours of an image as bytes, and how they were scaled."""
    if image.dtype == np.uint8:
        return image, ""
    if image.dtype.kind == "b":
        return image.astype(np.uint8) * np.uint8(255), ""
    values = image.astype(np.float64)
    finite = np.isfinite(values)
    note, low, high = "", 0.0, 255.0
    if finite.any():
        least, greatest = float(values[finite].min()), float(values[finite].max())
        low, high, note = _scale(least, greatest, image.dtype)
    span = high - low or 1.0
    with np.errstate(all="ignore"):
        scaled = np.clip((values - low) / span * 255.0, 0, 255)
    colours = np.where(finite, scaled, 0).astype(np.uint8)
    if not finite.all():
        share = 1 - float(finite.mean())
        note = "; ".join(filter(None, [note, f"{share:.0%} of pixels not finite"]))
        colours = _mark(colours, np.logical_not(finite.all(axis=-1)))
    return colours, note


def _scale(least: float, greatest: float, dtype: np.dtype[Any]) -> tuple[float, float, str]:
    """Return the values of black and white, and a note on them."""
    if dtype.kind in "iu":
        if least >= 0 and greatest <= 255:
            return 0.0, 255.0, ""
    elif least >= 0 and greatest <= 1:
        return 0.0, 1.0, "0 to 1"
    elif least >= -1 and greatest <= 1:
        return -1.0, 1.0, "-1 to 1"
    elif least >= 0 and _LEAST_BRIGHTEST < greatest <= 255:
        return 0.0, 255.0, "0 to 255"
    return least, greatest, f"scaled from {least:.4g} to {greatest:.4g}"


def _mark(colours: NDArray[np.uint8], where: NDArray[np.bool_]) -> NDArray[np.uint8]:
    """Return colours with some pixels marked, in RGB."""
    marked = colours[..., :3].copy()
    if marked.shape[-1] < 3:
        marked = np.repeat(marked[..., :1], 3, axis=-1)
    marked[where] = _NOT_FINITE
    return marked
