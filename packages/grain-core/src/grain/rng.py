"""Random generators for single elements, created once and reused by seeking to an element's index.

A generator is a `Philox` counter: its key comes from the seed, and the element's index is written into
the counter. Setting numpy's public state costs more than most random draws, so the few words are
written to memory directly, after a check of the memory layout; the public state is the fallback.
"""

from __future__ import annotations

import ctypes
import functools
import sys
from typing import Any

import numpy as np

from grain.options import checked_int

_MASK64 = 0xFFFFFFFFFFFFFFFF
_EMPTY_BUFFER = 4  # numpy draws four words at a time; at position 4 none of them is left.
_BUFFER_POS = 2  # The word of the state that holds the buffer position.
_LEFT_OVER = 7  # The word that holds the flag and the value of a left-over half word.


class PhiloxState(ctypes.Structure):
    """The memory layout of numpy's Philox state."""

    _fields_ = (
        ("counter", ctypes.POINTER(ctypes.c_uint64 * 4)),
        ("key", ctypes.POINTER(ctypes.c_uint64 * 2)),
        ("buffer_pos", ctypes.c_int),
        ("buffer", ctypes.c_uint64 * 4),
        ("has_uint32", ctypes.c_int),
        ("uinteger", ctypes.c_uint32),
    )


class ElementGenerator:
    """A random generator that can seek to any element."""

    __slots__ = ("_bits", "_counter", "_words", "generator")

    def __init__(self, seed: int):
        self._bits = np.random.Philox(seed)
        self.generator = np.random.Generator(self._bits)
        self._counter: memoryview | None = None
        if layout_matches():
            state = PhiloxState.from_address(self._bits.ctypes.state_address)
            # Both are views of 64-bit words; the memory lives as long as the bit generator.
            self._counter = memoryview(state.counter.contents).cast("B").cast("Q")
            self._words = memoryview(state).cast("B").cast("Q")

    @property
    def writes_memory(self) -> bool:
        """Whether seeking writes numpy's memory directly, instead of its public state."""
        return self._counter is not None

    def seek(self, index: int, op_seed: int = 0) -> np.random.Generator:
        """Set the generator to the element at `index`, for the operation with seed `op_seed`."""
        counter = self._counter
        if counter is None:
            _set_public_state(self._bits, index, op_seed)
            return self.generator
        counter[0] = counter[1] = 0
        counter[2] = op_seed & _MASK64
        counter[3] = index & _MASK64
        words = self._words
        words[_BUFFER_POS] = _EMPTY_BUFFER
        words[_LEFT_OVER] = 0
        return self.generator


class KeyedGenerator:
    """A generator that can be set to any key and position; only where `is_supported()`.

    >>> keyed = KeyedGenerator()
    >>> first = keyed.seek(7).random()
    >>> position = keyed.position()
    >>> second = keyed.generator.random()
    >>> bool(keyed.seek(7, position).random() == second)
    True
    """

    __slots__ = ("_bits", "_counter", "_key", "_own_references", "_words", "generator")

    def __init__(self) -> None:
        self._bits = np.random.Philox(key=0)
        self.generator = np.random.Generator(self._bits)
        state = PhiloxState.from_address(self._bits.ctypes.state_address)
        # Views of 64-bit words; the memory lives as long as the bit generator.
        self._counter = memoryview(state.counter.contents).cast("B").cast("Q")
        self._key = memoryview(state.key.contents).cast("B").cast("Q")
        # Without the two pointers at its start.
        self._words = memoryview(state).cast("B").cast("Q")[_BUFFER_POS:]
        self._own_references = self._references()

    @staticmethod
    def is_supported() -> bool:
        """Return whether numpy stores a Philox state as expected."""
        return layout_matches()

    def _references(self) -> tuple[int, int]:
        return sys.getrefcount(self.generator), sys.getrefcount(self._bits)

    @property
    def is_shared(self) -> bool:
        """Whether the generator is referred to elsewhere."""
        return self._references() != self._own_references

    def seek(self, key: int, position: bytes | None = None) -> np.random.Generator:
        """Set the generator to a key, and to a position instead of its start."""
        keys, counter, words = self._key, self._counter, self._words
        keys[0] = key & _MASK64
        keys[1] = key >> 64
        if position is None:
            counter[0] = counter[1] = counter[2] = counter[3] = 0
            words[0] = _EMPTY_BUFFER
            words[_LEFT_OVER - _BUFFER_POS] = 0
        else:
            saved = memoryview(position).cast("Q")
            counter[:] = saved[:4]
            words[:] = saved[4:]
        return self.generator

    def position(self) -> bytes:
        """Return the position for `seek`."""
        return self._counter.tobytes() + self._words.tobytes()


def _set_public_state(bits: np.random.Philox, index: int, op_seed: int) -> None:
    state = bits.state
    counter = [0, 0, op_seed & _MASK64, index & _MASK64]
    state["state"]["counter"] = np.array(counter, dtype=np.uint64)
    state["buffer_pos"] = _EMPTY_BUFFER
    state["has_uint32"] = 0
    state["uinteger"] = 0
    bits.state = state


@functools.cache
def layout_matches(layout: type[PhiloxState] = PhiloxState, byteorder: str = sys.byteorder) -> bool:
    """Return whether numpy stores a Philox state in the given layout, with native 64-bit words."""
    if byteorder != "little" or ctypes.sizeof(layout) != 64:
        return False
    try:
        bits = np.random.Philox(12345)
        generator = np.random.Generator(bits)
        generator.integers(0, 2**31, dtype=np.uint32)
        generator.random(2)
        memory = layout.from_address(bits.ctypes.state_address)
        public: Any = bits.state
        return bool(
            list(memory.counter.contents) == public["state"]["counter"].tolist()
            and list(memory.key.contents) == public["state"]["key"].tolist()
            and list(memory.buffer) == public["buffer"].tolist()
            and memory.buffer_pos == public["buffer_pos"] == 3
            and memory.has_uint32 == public["has_uint32"] == 1
            and memory.uinteger == public["uinteger"] != 0
        )
    except Exception:  # Another implementation of numpy, or of ctypes.
        return False


class RngPool:
    """A pool of generators of one seed.

    >>> pool = RngPool(seed=7)
    >>> rng = pool.acquire_rng(3)
    >>> first = rng.random()
    >>> pool.release_rng(rng)
    >>> pool.acquire_rng(3).random() == first
    True
    """

    def __init__(self, seed: int):
        self._seed = checked_int("seed", seed, least=-(2**63))
        self._free: list[ElementGenerator] = []
        self._borrowed: dict[int, ElementGenerator] = {}

    def __getstate__(self) -> int:
        return self._seed

    def __setstate__(self, seed: int) -> None:
        self.__init__(seed)  # type: ignore[misc]

    def borrow(self) -> ElementGenerator:
        """Return a generator that is not in use; safe from any thread."""
        try:
            return self._free.pop()
        except IndexError:
            return ElementGenerator(self._seed)

    def give_back(self, generator: ElementGenerator) -> None:
        """Put a borrowed generator back."""
        self._free.append(generator)

    def acquire_rng(self, index: int, *, op_seed: int = 0) -> np.random.Generator:
        """Return a generator set to the element at `index`; put it back with `release_rng`.

        Operations on one element with different `op_seed` draw independently of each other.
        """
        borrowed = self.borrow()
        rng = borrowed.seek(index, op_seed)
        self._borrowed[id(rng)] = borrowed
        return rng

    def release_rng(self, rng: np.random.Generator) -> None:
        """Put an acquired generator back."""
        borrowed = self._borrowed.pop(id(rng), None)
        if borrowed is None:
            raise ValueError("release_rng: this generator was not acquired from this pool.")
        self._free.append(borrowed)
