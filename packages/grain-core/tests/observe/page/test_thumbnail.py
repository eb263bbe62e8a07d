"""Thumbnails: which arrays are images, and the colours of their pixels."""

from __future__ import annotations

import struct
import zlib

import numpy as np
import pytest

from grain.observe.page.png import encode_png
from grain.observe.page.thumbnail import ImageLayout, image_layout, thumbnail


def decode_png(data: bytes) -> np.ndarray:
    """Return the pixels of a PNG file that uses the filters none, left and above."""
    assert data.startswith(b"\x89PNG\r\n\x1a\n")
    position, compressed, header = 8, b"", b""
    while position < len(data):
        (size,) = struct.unpack_from(">I", data, position)
        kind, body = data[position + 4 : position + 8], data[position + 8 : position + 8 + size]
        (checksum,) = struct.unpack_from(">I", data, position + 8 + size)
        assert checksum == zlib.crc32(kind + body)
        header = body if kind == b"IHDR" else header
        compressed += body if kind == b"IDAT" else b""
        position += 12 + size
    width, height, depth, colour = struct.unpack_from(">IIBB", header)
    channels = {0: 1, 4: 2, 2: 3, 6: 4}[colour]
    assert depth == 8
    rows = np.frombuffer(zlib.decompress(compressed), np.uint8).reshape(height, -1)
    pixels = np.zeros((height, width * channels), np.uint8)
    for y, row in enumerate(rows):
        if row[0] == 0:
            pixels[y] = row[1:]
        elif row[0] == 2:
            pixels[y] = row[1:] + (pixels[y - 1] if y else np.uint8(0))
        else:
            assert row[0] == 1
            pixels[y] = np.cumsum(row[1:].reshape(width, channels), axis=0, dtype=np.uint8).ravel()
    return pixels.reshape(height, width, channels)


@pytest.mark.parametrize("channels", [1, 2, 3, 4])
@pytest.mark.parametrize("size", [(1, 1), (7, 3), (32, 48)])
def test_a_png_has_the_pixels_it_was_made_of(size, channels):
    random = np.random.default_rng(1)
    noise = random.integers(0, 256, (*size, channels), np.uint8)
    smooth = np.broadcast_to(np.arange(size[1], dtype=np.uint8)[None, :, None], noise.shape)
    for pixels in (noise, smooth):
        np.testing.assert_array_equal(decode_png(encode_png(pixels)), pixels)


def test_an_image_without_pixels_is_refused():
    with pytest.raises(ValueError, match=r"at least one pixel.*\(0, 3, 3\)"):
        encode_png(np.zeros((0, 3, 3), np.uint8))


@pytest.mark.parametrize(
    ("shape", "dtype", "layout"),
    [
        ((28, 28), "uint8", ImageLayout(0, None)),
        ((28, 28), "bool", ImageLayout(0, None)),
        ((28, 28), "float32", ImageLayout(0, None)),
        ((28, 28, 1), "float32", ImageLayout(0, 2)),
        ((28, 28, 3), "int64", ImageLayout(0, 2)),
        ((28, 28, 4), "uint8", ImageLayout(0, 2)),
        ((3, 28, 28), "float16", ImageLayout(0, 0)),
        ((1, 28, 28), "uint8", ImageLayout(0, 0)),
        ((8, 28, 28), "uint8", ImageLayout(1, None)),
        ((8, 28, 28, 3), "uint8", ImageLayout(1, 2)),
        ((8, 3, 28, 28), "uint8", ImageLayout(1, 0)),
        ((2, 8, 28, 28, 3), "uint8", ImageLayout(2, 2)),
        # Rather tables, tokens and features than images.
        ((32, 512), "int64", None),
        ((32, 512), "int32", None),
        ((4, 4), "uint8", None),
        ((10, 10), "float32", None),
        ((3, 3, 3), "uint8", None),
        ((0, 28, 28, 3), "uint8", None),
        ((28,), "uint8", None),
        ((28, 28, 3), "complex64", None),
        ((28, 28, 3), "O", None),
        ((28, 28), "datetime64[s]", None),
        ((2, 100_000), "float32", None),
        ((2, 2, 2, 2, 2, 2), "uint8", None),
    ],
)
def test_arrays_are_read_as_images_by_shape_and_type(shape, dtype, layout):
    assert image_layout(shape, np.dtype(dtype)) == layout


def test_bytes_are_shown_as_they_are():
    image = np.random.default_rng(1).integers(0, 256, (20, 30, 3), np.uint8)
    small = thumbnail(image, 2, 64)
    np.testing.assert_array_equal(small.pixels, image)
    assert small.size == (30, 20)
    assert small.note == ""


@pytest.mark.parametrize(
    ("values", "note", "expected"),
    [
        ([0.0, 0.5, 1.0], "0 to 1", [0, 127, 255]),
        ([-1.0, 0.0, 1.0], "-1 to 1", [0, 127, 255]),
        ([0.0, 100.0, 255.0], "0 to 255", [0, 100, 255]),
        ([-2.0, 0.0, 2.0], "scaled from -2 to 2", [0, 127, 255]),
        ([0.0, 10.0, 20.0], "scaled from 0 to 20", [0, 127, 255]),
        ([5.0, 5.0, 5.0], "scaled from 5 to 5", [0, 0, 0]),
        ([-5.0, -5.0, -5.0], "scaled from -5 to -5", [0, 0, 0]),
    ],
)
def test_floats_are_scaled_by_their_range(values, note, expected):
    image = np.repeat(np.array(values, np.float32), 100).reshape(-1, 10)
    small = thumbnail(image, None, 64)
    assert small.note == note
    assert [int(v) for v in small.pixels[[0, 10, 20], 0, 0]] == expected


def test_integers_beyond_bytes_are_scaled():
    image = np.linspace(0, 65535, 256).astype(np.uint16).reshape(16, 16)
    small = thumbnail(image, None, 64)
    assert small.pixels.min() == 0
    assert small.pixels.max() == 255
    assert "65535" not in small.note or "scaled" in small.note


def test_pixels_that_are_not_finite_are_marked_and_counted():
    image = np.zeros((20, 20, 3), np.float32)
    image[0, 0] = np.nan
    image[0, 1, 2] = np.inf
    small = thumbnail(image, 2, 64)
    assert (small.pixels[0, 0] == small.pixels[0, 1]).all()
    assert tuple(small.pixels[0, 0]) != (0, 0, 0)
    assert "not finite" in small.note
    everything = thumbnail(np.full((20, 20), np.nan), None, 64)
    assert "100% of pixels not finite" in everything.note


@pytest.mark.parametrize("shape", [(1000, 1000, 3), (5000, 30), (9, 300), (130, 129, 1), (65, 64)])
@pytest.mark.parametrize("dtype", ["uint8", "float32", "bool", "int64"])
def test_large_images_are_reduced_to_the_side(shape, dtype):
    small = thumbnail(np.ones(shape, dtype), 2 if len(shape) == 3 else None, 64)
    assert max(small.pixels.shape[:2]) <= 64
    assert min(small.pixels.shape[:2]) >= 1
    assert small.pixels.dtype == np.uint8
    assert small.size == (shape[1], shape[0])


def test_reducing_averages_neighbours():
    board = (np.indices((128, 128)).sum(axis=0) % 2 * 255).astype(np.uint8)
    small = thumbnail(board, None, 64)
    assert set(np.unique(small.pixels)) == {128}


def test_channels_first_are_moved_to_the_end():
    image = np.zeros((3, 16, 20), np.uint8)
    image[1] = 200
    small = thumbnail(image, 0, 64)
    assert small.pixels.shape == (16, 20, 3)
    assert (small.pixels == [0, 200, 0]).all()
