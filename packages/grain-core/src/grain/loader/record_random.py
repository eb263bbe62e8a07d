"""Generators of a loader's records, made when a random transformation needs them.

Each record of a sampler with a seed has a generator of its own, which continues from one random
transformation to the next. Making a generator costs more than most transformations, so a record keeps only
the key and, after a first use, the position of its generator; a few generators are set to them in turn. A
generator that a user's function keeps a reference to stays with its record.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from grain.records import RecordMetadata
from grain.rng import KeyedGenerator
from grain.samplers import keyed_rng


class SampledMetadata:
    """Metadata of a record that no user sees: the key and the position of its generator.

    Results of one record share its metadata, and so its generator.
    """

    __slots__ = ("_key", "_position")

    def __init__(self, key: int, position: Any = None):
        self._key = key
        # None for a new generator, its saved position, or the generator itself.
        self._position = position

    def __reduce__(self) -> tuple[Any, ...]:
        return SampledMetadata, (self._key, self._position)

    def remove_record_key(self) -> SampledMetadata:
        """Return the metadata of a batch: those of its last record."""
        return self

    def draw(self, function: Callable[[Any, np.random.Generator], Any], data: Any) -> Any:
        """Return `function(data, generator)`."""
        position = self._position
        if isinstance(position, np.random.Generator):
            return function(data, position)
        borrowed = _borrow()
        if borrowed is None or self._key >> 128:
            self._position = rng = keyed_rng(self._key)
            return function(data, rng)
        try:
            return function(data, borrowed.seek(self._key, position))
        finally:
            if borrowed.is_shared:
                self._position = borrowed.generator
            else:
                self._position = borrowed.position()
                _free.append(borrowed)


def sampled_metadata(
    indices: list[int], keys: list[int], seed: int | None
) -> list[SampledMetadata] | list[RecordMetadata]:
    """Return the metadata of the records at global indices."""
    if seed is None:
        return [RecordMetadata(*pair) for pair in zip(indices, keys, strict=True)]
    return [SampledMetadata(seed + index) for index in indices]


_free: list[KeyedGenerator] = []


def _borrow() -> KeyedGenerator | None:
    """Return a generator that is not in use; safe from any thread."""
    try:
        return _free.pop()
    except IndexError:
        return KeyedGenerator() if KeyedGenerator.is_supported() else None
