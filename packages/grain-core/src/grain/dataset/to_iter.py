"""The boundary between map and iter datasets, where elements are read in order, and ahead."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar

import numpy as np

from grain.dataset.chunk import END, Chunk, EndOfDataError, PartialRead
from grain.dataset.entry_points import BlockReader, executors
from grain.dataset.filter import DropRateMonitor
from grain.dataset.iter_dataset import IterDataset
from grain.dataset.iterator import ChunkIterator, DatasetIterator, state_field
from grain.dataset.map import has_none
from grain.dataset.map_dataset import MapDataset, read_each
from grain.dataset.node import (
    ExecutionTrait,
    computed_once,
    is_state_of_index,
    lines,
    written_form,
)
from grain.dataset.sparse_reads import SparseReads
from grain.options import ReadOptions, checked_int

T = TypeVar("T")


class PrefetchIterDataset(IterDataset[T]):
    """The elements of a map dataset in order; those that were filtered out are skipped."""

    preserves_elements = True

    def __init__(
        self,
        parent: MapDataset[T],
        read_options: ReadOptions | None = None,
        allow_nones: bool = False,
    ):
        super().__init__(parent)
        if read_options is not None and not isinstance(read_options, ReadOptions):
            raise TypeError(
                f"read_options must be a grain.ReadOptions, got {read_options!r} of type "
                f"{type(read_options).__name__}."
            )
        self.read_options = read_options or ReadOptions()
        self.allow_nones = allow_nones

    def make_parent_iterators(
        self, make: Callable[[Any], DatasetIterator[Any]]
    ) -> list[DatasetIterator[Any]]:
        del make
        return []  # The parent is read by index.

    def make_iterator(self, parents: Sequence[DatasetIterator[Any]]) -> DatasetIterator[T]:
        del parents
        return PrefetchDatasetIterator(self)

    execution_trait = ExecutionTrait.BOUNDARY

    def accepts_state(self, state: Any) -> bool:
        return is_state_of_index(state, len(self._parent))

    def __str__(self) -> str:
        return (
            f"PrefetchIterDataset(read_options={self.read_options}, allow_nones={self.allow_nones})"
        )

    @property
    def iterator_name(self) -> str:
        """The name of the iterator in messages, for any executor."""
        return (
            f"PrefetchDatasetIterator(read_options={self.read_options}, "
            f"allow_nones={self.allow_nones})"
        )

    @computed_once
    def skips_elements(self) -> bool:
        """Whether elements that an operation upstream dropped are left out."""
        return bool(self._parent.is_sparse and not self.allow_nones)

    def known_length(self) -> int | None:
        if self.skips_elements:
            return None
        return len(self._parent)

    def written_call(self) -> str:
        # The options of datasets that are quick to read, such as ranges, are left out as well.
        usual = (ReadOptions(), ReadOptions(prefetch_buffer_size=0))
        options = None if self.read_options in usual else self.read_options
        return written_form.call(
            "to_iter_dataset", read_options=options, allow_nones=self.allow_nones
        )

    def fingerprint(self) -> list[lines.Line]:
        upstream: list[lines.Line] = self._parent.fingerprint()
        if not self.allow_nones:
            return upstream
        return [*upstream, lines.Line("operation", "to_iter_dataset(allow_nones=True)")]


class PrefetchDatasetIterator(ChunkIterator[T]):
    """An iterator that reads blocks of elements; its state is the next index."""

    def __init__(self, dataset: PrefetchIterDataset[T]):
        super().__init__()
        self._dataset = dataset
        parent = dataset.parents[0]
        self._stop = len(parent)
        self._next_index = 0
        self._watch = DropRateMonitor(lambda: dataset.iterator_name, self._context.options)
        # For a dataset that drops elements.
        self._reads: SparseReads | None = None
        if dataset.skips_elements:
            self._reads = SparseReads()
        self._reader: BlockReader = executors().reader(parent, 0, self._stop, dataset.read_options)

    def __str__(self) -> str:
        return self._dataset.iterator_name

    @property
    def computes_elsewhere(self) -> bool:
        """Whether threads read, so that the time that a pull takes is time of waiting for them."""
        return getattr(self._reader, "in_threads", False)

    def prefetched(self) -> int:
        """Return the number of elements that threads have read and the consumer has not taken."""
        return int(getattr(self._reader, "prefetched", 0))

    @property
    def prefetch_capacity(self) -> int | None:
        """The most elements that threads read ahead."""
        return self._dataset.read_options.prefetch_buffer_size

    def _pull(self, limit: int) -> Chunk:
        reads = self._reads
        if reads is None:
            return self._read(limit)
        kept = reads.take(limit)
        if kept.elements:
            return kept
        chunk = self._read(limit)
        # An error comes after all elements before it.
        return chunk if self._error is not None else reads.put(chunk, limit)

    def _read_block(self, limit: int) -> list[Any]:
        if self._reads is None:
            return self._reader.read(limit)
        elements = self._reader.read(self._reads.start(limit))
        self._reads.end()
        return elements

    def _read(self, limit: int) -> Chunk:
        """Return the elements that are kept of the next block of which some are."""
        while self._next_index < self._stop:
            elements = self._read_block(limit)
            first = self._next_index + 1
            self._next_index += len(elements)
            error: Exception | None = None
            if isinstance(elements, PartialRead):
                # The failing element is read again next time, as its index has not passed.
                error = elements.error
                if isinstance(error, EndOfDataError):
                    self._stop, error = self._next_index, None
                self._reader.seek(self._next_index)
            elif not elements:
                raise RuntimeError(
                    f"{self._dataset.parents[0]} returned no element at {first - 1}."
                )
            chunk, excess = self._keep(elements, first)
            if excess is not None:
                end, error = excess
                self._next_index = first - 1 + end
                self._reader.seek(self._next_index)
            if error is not None:
                return self._fail_after(error, chunk)
            if chunk.elements:
                return chunk
        return END

    def _keep(self, elements: list[Any], first: int) -> tuple[Chunk, tuple[int, ValueError] | None]:
        """Return the elements to yield; if too many were dropped, those up to there and the error."""
        if self._dataset.allow_nones or not has_none(elements):
            excess = self._watch.watch(len(elements), None)
            end = len(elements) if excess is None else excess[0]
            return _chunk_from(elements[:end], first), excess
        if self._watch.window_lasts(len(elements)):
            present = _present_in(elements)
            self._watch.add(len(elements), len(present))
            return _chunk_among(present, elements, first), None
        present = []

        def count(begin: int, end: int) -> int:
            """Count the elements of one range; ranges follow each other."""
            found = _present_in(elements[begin:end])
            present.extend(found)
            return len(found)

        excess = self._watch.watch(len(elements), count)
        return _chunk_among(present, elements, first), excess

    def index_from_state(self, state: Any) -> int:
        return int(state_field(state, "next_index", self))

    def state_from_index(self, index: int) -> Any:
        return {"next_index": index}

    def _live_state(self) -> Any:
        return self._live_state_function()()

    def _live_state_function(self) -> Callable[[], Any]:
        delivered = None if self._reads is None else self._reads.state_function()
        return partial(_state, self._next_index) if delivered is None else delivered

    def _restore(self, state: Any) -> None:
        found = state_field(state, "next_index", self)
        index = checked_int("`next_index` of a state", found, least=-(2**63))
        if not 0 <= index <= self._stop:
            # Message kept from google/grain 0.2.18
            raise IndexError(
                f"Checkpoint `next_index` {index} is out of range for dataset of length {self._stop}."
            )
        self._next_index = index
        if self._reads is not None:
            self._reads.reset()
        self._reader.seek(index)

    def start_prefetch(self) -> None:
        self._assert_not_closed()
        self._reader.start()

    def close(self) -> None:
        super().close()
        self._reader.close()


def _state(next_index: int) -> Any:
    return {"next_index": next_index}


def _chunk_from(elements: list[Any], first: int) -> Chunk:
    return Chunk(elements, lambda offset: {"next_index": first + offset})


def _chunk_among(present: list[Any], elements: list[Any], first: int) -> Chunk:
    """Return a chunk of the elements that are not None; their indices are found only for a state."""
    offsets: list[int] = []

    def state_after(offset: int) -> Any:
        if not offsets:
            offsets.extend(_present_offsets(elements))
        return {"next_index": first + offsets[offset]}

    return Chunk(present, state_after)


def _present_in(elements: list[Any]) -> list[Any]:
    return [element for element in elements if element is not None]


def _present_offsets(elements: list[Any]) -> list[int]:
    return [offset for offset, element in enumerate(elements) if element is not None]


class InlineReader:
    """Reads in the consumer's thread, nothing ahead."""

    def __init__(self, dataset: MapDataset[Any], start: int, stop: int):
        self._dataset = dataset
        self._next = start
        self._stop = stop

    def read(self, limit: int) -> list[Any]:
        first = self._next
        end = min(first + max(1, limit), self._stop)
        elements: list[Any]
        if end == first + 1:  # As at each start: without arrays.
            elements = read_each(self._dataset, (first,))
        else:
            elements = self._dataset.read_many(np.arange(first, end, dtype=np.int64))
        self._next += len(elements)
        return elements

    def seek(self, index: int) -> None:
        self._next = index

    def start(self) -> None:
        pass

    def close(self) -> None:
        pass
