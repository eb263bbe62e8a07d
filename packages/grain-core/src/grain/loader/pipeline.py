"""The dataset behind a `DataLoader`: records in the sampler's order, then the operations."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from grain import transforms, tree
from grain._exceptions import add_note, as_failure, note_element, transform_name
from grain.dataset.base import DatasetIterator, IndexedMapDataset, IterDataset
from grain.dataset.chunk import EndOfDataError, PartialRead
from grain.dataset.filter import FilterIterDataset
from grain.dataset.flat_map import FlatMapIterDataset
from grain.dataset.map import MapIterDataset
from grain.dataset.node import ExecutionTrait, lines
from grain.dataset.source import SourceMapDataset
from grain.index.permutation import IndexArray
from grain.loader.record_random import SampledMetadata, sampled_metadata
from grain.options import ReadOptions
from grain.records import Record, RecordMetadata, as_record
from grain.samplers import IndexSampler, SequentialSampler
from grain.sharding import ShardOptions

Transformation = transforms.Transformation
_KNOWN = (
    transforms.Batch,
    transforms.Map,
    transforms.RandomMap,
    transforms.TfRandomMap,
    transforms.Filter,
    transforms.FlatMap,
)


def check_operations(operations: Any) -> tuple[Any, ...]:
    """Return the operations, or raise an error that shows the invalid one."""
    if isinstance(operations, Iterator):
        operations = list(operations)
    if isinstance(operations, (str, bytes)) or not isinstance(operations, Sequence):
        raise TypeError(
            "operations must be a sequence of grain.transforms objects, got "
            f"{operations!r} of type {type(operations).__name__}."
        )
    for number, operation in enumerate(operations):
        if isinstance(operation, type) and issubclass(operation, _KNOWN):
            raise TypeError(
                f"operations[{number}] is the class {operation.__name__} itself; expected an instance "
                f"of it, such as `{operation.__name__}()`."
            )
        if not isinstance(operation, _KNOWN) and not callable(operation):
            raise TypeError(
                f"operations[{number}] is {operation!r} of type {type(operation).__name__}; expected "
                "a Map, RandomMap, Filter, FlatMap or Batch of grain.transforms, or a function from "
                "an iterator of grain.Record to another."
            )
    return tuple(operations)


def _needs_data_only(operation: Any) -> bool:
    plain = (transforms.Batch, transforms.Map, transforms.Filter, transforms.FlatMap)
    return isinstance(operation, plain)


def build_pipeline(
    source: Any, sampler: Any, shard: ShardOptions, options: ReadOptions, operations: Sequence[Any]
) -> IterDataset[Any]:
    """Return the dataset of a loader; records have metadata up to the last operation that needs them."""
    remaining = list(operations)
    on_records: list[Any] = []
    while remaining and not all(map(_needs_data_only, remaining)):
        on_records.append(remaining.pop(0))
    # A user's operation receives records, which then have all of their metadata.
    sees_metadata = any(not isinstance(operation, _KNOWN) for operation in on_records)
    records = SampledMapDataset(source, sampler, shard, bool(on_records), sees_metadata)
    # A record may be None; the operations decide what that means.
    dataset = records.to_iter_dataset(options, allow_nones=True)
    shares_metadata = False
    for operation in on_records:
        dataset = apply_to_records(dataset, operation, shares_metadata)
        if isinstance(operation, transforms.FlatMap) or not isinstance(operation, _KNOWN):
            shares_metadata = True
    if on_records:
        dataset = DataMapIterDataset(dataset, data_of)
    for operation in remaining:
        dataset = apply_to_data(dataset, operation)
    return dataset


class SampledMapDataset(IndexedMapDataset[Any]):
    """The records of one shard, in the order of the sampler."""

    def __init__(
        self,
        source: Any,
        sampler: Any,
        shard: ShardOptions,
        with_metadata: bool,
        sees_metadata: bool,
    ):
        super().__init__()
        self._source = source
        self._records: SourceMapDataset[Any] = SourceMapDataset(source)
        self._sampler = sampler
        self._shard = shard
        self._with_metadata = with_metadata
        # Metadata that users do not see have generators that are made when they are used.
        self._reads_sampler = sees_metadata or type(sampler) not in (
            IndexSampler,
            SequentialSampler,
        )
        try:
            total = len(sampler)
        except TypeError:
            total = sys.maxsize  # The sampler raises an IndexError at its end.
        # Every shard has the same number of steps: processes that train together stay in step.
        self._length = total // shard.shard_count
        if type(sampler) is IndexSampler and not sampler.has_records:
            self._length = 0  # More shards than records: this shard is empty.

    def __len__(self) -> int:
        return self._length

    def __str__(self) -> str:
        return f"SampledMapDataset(source={type(self._source).__name__})"

    def written_call(self) -> str:
        names = (type(self._source).__name__, type(self._sampler).__name__)
        return f"DataLoader.records({', '.join(names)})"

    def read_many(self, indices: IndexArray) -> list[Any]:
        if not indices.size:
            return []
        global_indices = indices * self._shard.shard_count + self._shard.shard_index
        if self._reads_sampler:
            metadata, ended = self._read_sampler(global_indices)
            elements = self._read_keys([item.record_key for item in metadata])
            return self._records_of(metadata, elements, ended)
        keys = self._sampler.record_keys(global_indices)
        elements = self._records.read_many(keys)
        if not self._with_metadata:
            return elements
        sampled = sampled_metadata(global_indices.tolist(), keys.tolist(), self._sampler.seed)
        return self._records_of(sampled, elements, None)

    def _records_of(
        self, metadata: Sequence[Any], elements: list[Any], ended: Exception | None
    ) -> list[Any]:
        made: list[Any] = elements
        if self._with_metadata:
            made = [Record(*pair) for pair in zip(metadata, elements, strict=False)]
        if isinstance(elements, PartialRead):
            return PartialRead(list(made), elements.error)
        return made if ended is None else PartialRead(made, ended)

    def _read_keys(self, keys: list[Any]) -> list[Any]:
        if all(isinstance(key, (int, np.integer)) for key in keys):
            return self._records.read_many(np.array(keys, dtype=np.int64))
        # A sampler may use any keys that its source accepts.
        elements: list[Any] = []
        for key in keys:
            try:
                elements.append(self._source[key])
            except Exception as raised:
                error = as_failure(raised)
                note_element(error, self._records, key)
                return PartialRead(elements, error)
        return elements

    def _read_sampler(
        self, global_indices: IndexArray
    ) -> tuple[list[RecordMetadata], Exception | None]:
        metadata: list[RecordMetadata] = []

        def read(index: int) -> RecordMetadata:
            found: RecordMetadata = self._sampler[index]
            found.record_key  # noqa: B018  Raises for what is not metadata.
            return found

        try:
            metadata.extend(map(read, global_indices.tolist()))
        except IndexError as error:
            end = EndOfDataError(str(error))
            end.__cause__ = error
            return metadata, end
        except Exception as error:
            note_element(error, type(self._sampler).__name__, int(global_indices[len(metadata)]))
            return metadata, error
        if len(metadata) < global_indices.size:
            name, index = type(self._sampler).__name__, int(global_indices[len(metadata)])
            stopped = RuntimeError(
                f"{name}[{index}] raised StopIteration; a sampler has to raise IndexError at its end."
            )
            return metadata, stopped
        return metadata, None

    def fingerprint(self) -> list[lines.Line]:
        shard = self._shard
        return [
            *self._records.fingerprint(),
            lines.Line("sampler", lines.stable_text(self._sampler)),
            lines.Line("shard", f"{shard.shard_index} of {shard.shard_count}"),
        ]


@dataclasses.dataclass(frozen=True)
class OnData:
    """Function of a record that applies another function to its data and keeps its metadata."""

    function: Callable[[Any], Any]

    def __call__(self, record: Record[Any]) -> Record[Any]:
        return Record(record.metadata, self.function(record.data))


@dataclasses.dataclass(frozen=True)
class OnDataAndRng:
    """Function of a record that applies another function to its data and generator."""

    function: Callable[[Any, np.random.Generator], Any]

    def __call__(self, record: Record[Any]) -> Record[Any]:
        metadata: Any = record.metadata
        if type(metadata) is SampledMetadata:
            data = metadata.draw(self.function, record.data)
            return Record(record.metadata, data)
        if metadata.rng is None:
            raise ValueError(
                "A random transformation needs a generator, but the sampler has none for "
                f"{metadata}. Give the sampler a seed."
            )
        return Record(metadata, self.function(record.data, metadata.rng))


@dataclasses.dataclass(frozen=True)
class DataCondition:
    """Predicate of a record that applies another predicate to its data."""

    function: Callable[[Any], bool]

    def __call__(self, record: Record[Any]) -> bool:
        return self.function(record.data)


@dataclasses.dataclass(frozen=True)
class BatchData:
    """Batch function that stacks the data of records; a batch has its last record's metadata."""

    function: Callable[[Sequence[Any]], Any] | None

    def __call__(self, records: Sequence[Record[Any]]) -> Record[Any]:
        make = self.function or tree.stack
        metadata = records[-1].metadata.remove_record_key()
        return Record(metadata, make([record.data for record in records]))


class SplitData(transforms.FlatMap):
    """Flat map of a record's data; the results have the record's metadata."""

    def __init__(self, transform: transforms.FlatMap):
        self._transform = transform
        self.max_fan_out = getattr(transform, "max_fan_out", sys.maxsize)

    def flat_map(self, element: Record[Any]) -> list[Record[Any]]:
        return [Record(element.metadata, data) for data in self._transform.flat_map(element.data)]


class DataMapIterDataset(MapIterDataset[Any]):
    """Map of every record, None included."""

    _skips_none = False


class OrderedMapIterDataset(MapIterDataset[Any]):
    """Map of records one after the other: a draw of one may advance the generator of the next."""

    execution_trait = ExecutionTrait.ORDERED


def data_of(record: Any) -> Any:
    """Return the data of a record, at the end of the pipeline."""
    return as_record(record).data


def apply_to_data(dataset: IterDataset[Any], operation: Any) -> IterDataset[Any]:
    """Apply an operation to a dataset of plain data."""
    match operation:
        case transforms.Map():
            return DataMapIterDataset(dataset, operation)
        case transforms.Filter():
            return FilterIterDataset(dataset, operation)
        case transforms.FlatMap():
            return FlatMapIterDataset(dataset, operation)
        case _:
            return dataset.apply(operation)


def apply_to_records(
    dataset: IterDataset[Any], operation: Any, shares_metadata: bool = False
) -> IterDataset[Any]:
    """Apply an operation to a dataset of records.

    Args:
        dataset: The records.
        operation: The operation.
        shares_metadata: Whether several records may have the same metadata, and so the same generator.
    """
    make_map = OrderedMapIterDataset if shares_metadata else MapIterDataset
    match operation:
        case transforms.Map():
            return dataset.map(OnData(operation.map))
        case transforms.RandomMap():
            return make_map(dataset, OnDataAndRng(operation.random_map))
        case transforms.TfRandomMap():
            return make_map(dataset, OnDataAndRng(operation.np_random_map))
        case transforms.Filter():
            return dataset.filter(DataCondition(operation.filter))
        case transforms.FlatMap():
            return FlatMapIterDataset(dataset, SplitData(operation))
        case transforms.Batch():
            return dataset.batch(
                operation.batch_size,
                drop_remainder=operation.drop_remainder,
                batch_fn=BatchData(operation.batch_fn),
            )
        case _:
            return OperationIterDataset(dataset, operation)


class OperationIterDataset(IterDataset[Any]):
    """Dataset of the results of a function from an iterator of records to another."""

    fingerprint_name = "operation"

    def __init__(self, parent: IterDataset[Any], operation: Callable[..., Iterator[Record[Any]]]):
        super().__init__(parent)
        self._operation = operation

    def make_iterator(self, parents: Sequence[DatasetIterator[Any]]) -> DatasetIterator[Any]:
        return OperationDatasetIterator(parents[0], self._operation)

    def __str__(self) -> str:
        return f"OperationIterDataset(operation={type(self._operation).__name__})"

    def fingerprint_arguments(self) -> dict[str, Any]:
        return {"operation": self._operation}


class OperationDatasetIterator(DatasetIterator[Any]):
    """Iterator that feeds records to an operation.

    The metadata of a result name its last record; the state after a result is the parent's state after
    that record. Restoring a state starts the operation again there.
    """

    def __init__(self, parent: DatasetIterator[Any], operation: Any):
        super().__init__(parent)
        self._operation = operation
        self._start()

    def _start(self) -> None:
        self._states: dict[int, Any] = {}
        self._state = self._parent.get_state()
        try:
            self._output = iter(self._operation(self._feed()))
        except Exception as error:
            add_note(
                error,
                f"raised in the operation {transform_name(self._operation)}. A function among the "
                "operations of a DataLoader receives the iterator of all records; for a function of "
                "one element write a class that extends grain.transforms.Map.",
            )
            raise

    def _feed(self) -> Iterator[Record[Any]]:
        for record in self._parent:
            self._states[record.metadata.index] = self._parent.get_state()
            yield record

    def __next__(self) -> Any:
        self._assert_not_closed()
        try:
            record = as_record(next(self._output))
        except Exception:
            # At the end, and after a failure, records that the operation holds are lost.
            self._state = self._parent.get_state()
            raise
        index = record.metadata.index
        if index in self._states:
            self._state = self._states[index]
            self._states = {seen: s for seen, s in self._states.items() if seen >= index}
        return record

    def get_state(self) -> Any:
        return self._state

    def set_state(self, state: Any) -> None:
        self._parent.set_state(state)
        self._start()
