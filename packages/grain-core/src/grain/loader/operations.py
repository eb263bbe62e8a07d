"""Operations on iterators of records: the older form of transformations for a `DataLoader`.

Their results have no record key: they need not be the record of that key.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Generic, Protocol, TypeVar

import numpy as np

from grain import tree
from grain.dataset.batch import checked_batch_size
from grain.records import Record

S = TypeVar("S")
T = TypeVar("T")


class Operation(Protocol):
    """A function from an iterator of records to an iterator of records."""

    def __call__(self, input_iterator: Iterator[Record[Any]]) -> Iterator[Record[Any]]:
        """Yield the resulting records, each with the metadata of the last record it is made of."""


@dataclasses.dataclass
class MapOperation(Generic[S, T]):
    """Operation that applies a function to every record's data.

    >>> import grain
    >>> metadata = grain.RecordMetadata(index=0)
    >>> [record.data for record in MapOperation(abs)(iter([grain.Record(metadata, -3)]))]
    [3]
    """

    map_function: Callable[[Any], Any]

    def __call__(self, input_iterator: Iterator[Record[Any]]) -> Iterator[Record[Any]]:
        for record in input_iterator:
            yield Record(record.metadata.remove_record_key(), self.map_function(record.data))


@dataclasses.dataclass
class RandomMapOperation(Generic[S, T]):
    """Operation that applies a function to every record's data and generator."""

    random_map_function: Callable[[Any, np.random.Generator], Any]

    def __call__(self, input_iterator: Iterator[Record[Any]]) -> Iterator[Record[Any]]:
        for record in input_iterator:
            if record.metadata.rng is None:
                raise ValueError(
                    f"The sampler has no generator for {record.metadata}. Give the sampler a seed."
                )
            data = self.random_map_function(record.data, record.metadata.rng)
            yield Record(record.metadata.remove_record_key(), data)


@dataclasses.dataclass
class FilterOperation(Generic[S]):
    """Operation that keeps the records whose data fulfils a condition."""

    condition_function: Callable[[Any], bool]

    def __call__(self, input_iterator: Iterator[Record[Any]]) -> Iterator[Record[Any]]:
        for record in input_iterator:
            if self.condition_function(record.data):
                yield Record(record.metadata.remove_record_key(), record.data)


@dataclasses.dataclass
class BatchOperation(Generic[S, T]):
    """Operation that stacks the data of consecutive records.

    >>> import grain
    >>> list(grain.load([1, 2, 3], num_epochs=1, transformations=[BatchOperation(2)]))
    [array([1, 2]), array([3])]
    """

    batch_size: int
    drop_remainder: bool = False
    batch_fn: Callable[[Sequence[Any]], Any] | None = None

    def __post_init__(self) -> None:
        checked_batch_size(self.batch_size)

    def __call__(self, input_iterator: Iterator[Record[Any]]) -> Iterator[Record[Any]]:
        held: list[Any] = []
        last: Record[Any] | None = None
        for last in input_iterator:
            held.append(last.data)
            if len(held) == self.batch_size:
                yield self._batch(last, held)
                held = []
        if held and last is not None and not self.drop_remainder:
            yield self._batch(last, held)

    def _batch(self, last: Record[Any], held: list[Any]) -> Record[Any]:
        make = self.batch_fn or tree.stack
        return Record(last.metadata.remove_record_key(), make(held))
