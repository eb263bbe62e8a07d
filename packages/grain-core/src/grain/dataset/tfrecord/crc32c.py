"""CRC-32C, the checksum of TFRecord files, on numpy.

The checksum is linear: what a byte adds to it depends on the byte and on how far it is from the end.
So the contributions of many bytes are looked up at once and combined with exclusive or.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

_POLYNOMIAL = 0x82F63B78
_ONES = 0xFFFFFFFF
_BLOCK = 512
# Below this many bytes, one step after the other is faster.
_FEW = 24

Words = np.ndarray[Any, np.dtype[np.uint32]]


def crc32c(data: bytes | memoryview) -> int:
    """Return the CRC-32C of some bytes.

    >>> hex(crc32c(b"123456789"))
    '0xe3069283'
    """
    count = len(data)
    if count < _FEW:
        return _step_by_step(data, _ONES) ^ _ONES
    contributions, advanced_ones, advance = _tables()
    values = np.frombuffer(data, np.uint8)
    first = count % _BLOCK
    state = int(advanced_ones[first])
    if first:
        # Row i of the table is for the byte with i bytes after it.
        chosen = contributions[np.arange(first - 1, -1, -1), values[:first]]
        state ^= int(np.bitwise_xor.reduce(chosen))
    if count > first:
        rows = values[first:].reshape(-1, _BLOCK)
        blocks = contributions[np.arange(_BLOCK - 1, -1, -1), rows]
        for block in np.bitwise_xor.reduce(blocks, axis=1).tolist():
            state = (
                advance[0][state & 255]
                ^ advance[1][state >> 8 & 255]
                ^ advance[2][state >> 16 & 255]
                ^ advance[3][state >> 24]
                ^ block
            )
    return state ^ _ONES


def masked_crc32c(data: bytes | memoryview) -> int:
    """Return the checksum as TFRecord files store it, so that checksums of checksums stay useful.

    >>> hex(masked_crc32c(b"123456789"))
    '0xc78ab0e5'
    """
    crc = crc32c(data)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & _ONES


def _step_by_step(data: bytes | memoryview, state: int) -> int:
    table = _byte_table()
    for byte in data:
        state = table[(state ^ byte) & 255] ^ (state >> 8)
    return state


@functools.cache
def _byte_table() -> list[int]:
    table = []
    for value in range(256):
        for _ in range(8):
            value = (value >> 1) ^ (_POLYNOMIAL if value & 1 else 0)
        table.append(value)
    return table


@functools.cache
def _tables() -> tuple[Words, Words, list[list[int]]]:
    """Contributions by distance from the end; all ones after n zero bytes; states after a block."""
    table = np.array(_byte_table(), dtype=np.uint32)

    def after_zero_byte(states: Words) -> Words:
        advanced: Words = table[states & np.uint32(255)] ^ (states >> np.uint32(8))
        return advanced

    contributions = np.empty((_BLOCK, 256), np.uint32)
    contributions[0] = table
    ones = np.empty(_BLOCK, np.uint32)
    ones[0] = _ONES
    for distance in range(1, _BLOCK):
        contributions[distance] = after_zero_byte(contributions[distance - 1])
        ones[distance : distance + 1] = after_zero_byte(ones[distance - 1 : distance])
    # A state is four bytes; a block of zeros moves each of them by itself.
    advance = []
    for byte in range(4):
        states = (np.arange(256, dtype=np.uint32) << np.uint32(8 * byte)).astype(np.uint32)
        for _ in range(_BLOCK):
            states = after_zero_byte(states)
        advance.append(states.tolist())
    return contributions, ones, advance
