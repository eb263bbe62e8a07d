"""A writer of PNG images, on numpy and zlib."""

from __future__ import annotations

import struct
import zlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

_SIGNATURE = b"\x89PNG\r\n\x1a\n"
# The colour types of 1 to 4 channels: grey, grey with alpha, RGB, RGB with alpha.
_COLOUR_TYPES = {1: 0, 2: 4, 3: 2, 4: 6}


def encode_png(pixels: NDArray[np.uint8]) -> bytes:
    r"""Return an image of shape (height, width, channels) as a PNG file.

    >>> encode_png(np.zeros((2, 3, 3), np.uint8))[:4]
    b'\x89PNG'
    """
    height, width, channels = pixels.shape
    if not height or not width:
        raise ValueError(f"An image needs at least one pixel, got one of shape {pixels.shape}.")
    header = struct.pack(">IIBBBBB", width, height, 8, _COLOUR_TYPES[channels], 0, 0, 0)
    return (
        _SIGNATURE
        + _chunk(b"IHDR", header)
        + _chunk(b"IDAT", zlib.compress(_filtered(pixels), 9))
        + _chunk(b"IEND", b"")
    )


def _chunk(kind: bytes, data: bytes) -> bytes:
    checksum = zlib.crc32(kind + data)
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", checksum)


def _filtered(pixels: NDArray[np.uint8]) -> bytes:
    """Return the rows, each with the filter whose differences are smallest, which compresses well."""
    height, width, channels = pixels.shape
    rows = np.ascontiguousarray(pixels).reshape(height, width * channels)
    left = np.zeros_like(rows)
    left[:, channels:] = rows[:, :-channels]
    above = np.zeros_like(rows)
    above[1:] = rows[:-1]
    # Filters 0 to 2 of the format: none, the pixel to the left, the pixel above. Modulo 256.
    candidates: NDArray[Any] = np.stack([rows, rows - left, rows - above])
    costs = np.abs(candidates.view(np.int8).astype(np.int32)).sum(axis=2)
    best = costs.argmin(axis=0)
    chosen = candidates[best, np.arange(height)]
    return np.column_stack([best.astype(np.uint8), chosen]).tobytes()
