"""Records of a `DataLoader` and their metadata."""

from __future__ import annotations

import dataclasses
from typing import Any, Generic, TypeVar

import numpy as np

T = TypeVar("T")


@dataclasses.dataclass(slots=True)
class RecordMetadata:
    """The position of a record, and the key that reads it.

    Attributes:
        index: Index in the global order; grows along the pipeline.
        record_key: Key of the record in the data source.
        rng: Generator for random transformations of this record.

    >>> RecordMetadata(index=0, record_key=7).remove_record_key()
    RecordMetadata(index=0, record_key=None, rng=None)
    """

    index: int
    record_key: int | None = None
    rng: np.random.Generator | None = None

    def remove_record_key(self) -> RecordMetadata:
        """Return the metadata without the key, for an element that is no longer one record."""
        return dataclasses.replace(self, record_key=None)

    def __str__(self) -> str:
        return f"RecordMetadata(index={self.index}, record_key={self.record_key}, rng={self.rng!s})"


@dataclasses.dataclass(slots=True)
class Record(Generic[T]):
    """An element together with its metadata."""

    metadata: RecordMetadata
    data: T

    def __str__(self) -> str:
        return f"Record(metadata={self.metadata}, data={self.data!s})"


def as_record(value: Any) -> Record[Any]:
    """Return `value` if it is a record; raise otherwise."""
    if not isinstance(value, Record):
        raise TypeError(
            "An operation of a DataLoader must yield grain.Record objects, got "
            f"{value!r} of type {type(value).__name__}."
        )
    return value
