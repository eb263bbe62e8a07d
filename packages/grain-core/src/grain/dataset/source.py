"""Sources: any object with `__len__` and `__getitem__`, and ranges of integers."""

from __future__ import annotations

import operator
import os
import warnings
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from grain import tree
from grain._exceptions import note_element
from grain._user_code import calls_user_code
from grain.dataset.chunk import PartialRead
from grain.dataset.combined import CombinedReader
from grain.dataset.element_spec import ShapeDtypeStruct, spec_of
from grain.dataset.gather import gather
from grain.dataset.iter_dataset import IterDataset
from grain.dataset.map_dataset import IndexedMapDataset
from grain.dataset.node import computed, computed_once, lines, written_form
from grain.index.permutation import IndexArray
from grain.memory.allocation import allocate
from grain.options import ReadOptions

T = TypeVar("T")

# Up to this number, the arithmetic of Python is faster than that of arrays.
_FEW = 4
# Kinds of arrays for which indexing with many indices equals stacking rows.
_STACKABLE = "?biufcmM"

_READ_BY_INDEX = (
    "A source is read by index, `source[0]`, `source[1]`, and so on, and this one is a mapping. To read "
    "rows of columns pass a dictionary whose keys are all names, or "
    "`grain.sources.ColumnarDataSource(columns)`."
)


def _advice(source: Any) -> str:
    """Return what to pass instead of an object that is not read by index."""
    if isinstance(source, IterDataset):
        return " It is a stream already; use it as it is."
    if isinstance(source, os.PathLike):
        return f" To read a file, open it with `grain.sources.open({os.fspath(source)!r})`."
    if callable(getattr(source, "collect", None)):  # A LazyFrame of polars.
        return " Compute it first: pass `frame.collect()`."
    if callable(getattr(source, "__iter__", None)):
        return " Make a list of it, or stream it with `grain.IterDataset.from_iterable`."
    if callable(source):
        return " If it returns an iterable, stream it with `grain.IterDataset.from_iterable`."
    return ""


def _looks_like_a_path(text: str) -> bool:
    """Return whether a text is more likely a path than data."""
    return ("/" in text or "\\" in text or "." in text[1:-1]) and not any(map(str.isspace, text))


class SourceMapDataset(IndexedMapDataset[T]):
    """The records of a source."""

    def __init__(self, source: Any):
        super().__init__()
        for name in ("__len__", "__getitem__"):
            if not hasattr(type(source), name):
                raise TypeError(
                    "MapDataset.source needs an object with `__len__` and `__getitem__`, such as a "
                    f"list, an array or a data source; got {type(source).__name__}, which has no "
                    f"`{name}`.{_advice(source)}"
                )
        if isinstance(source, np.ndarray) and not source.ndim:
            raise TypeError(
                f"MapDataset.source got an array without dimensions, {source!r}, which has no records; "
                "pass an array with a row for each record."
            )
        if isinstance(source, str) and _looks_like_a_path(source):
            warnings.warn(
                f"MapDataset.source got the text {source!r}, so its elements are the "
                f"{len(source)} characters of it. To read a file, open it with "
                f"`grain.sources.open({source!r})`, or pass a data source.",
                stacklevel=3,
            )
        self._source = source

    def __len__(self) -> int:
        return len(self._source)

    def __str__(self) -> str:
        return f"SourceMapDataset(source={type(self._source).__name__})"

    def _wrapped(self, indices: IndexArray) -> IndexArray:
        """Return indices inside the source, which has no epochs."""
        length = len(self._source)
        if indices.size and int(indices.min()) >= 0 and int(indices.max()) < length:
            return indices
        return indices % length

    @calls_user_code
    def read_many(self, indices: IndexArray) -> list[Any]:
        if not indices.size:
            return []
        source = self._source
        if indices.size <= _FEW:
            length = len(source)
            wrapped = [index % length for index in indices.tolist()]
        else:
            wrapped = self._wrapped(indices).tolist()
        if type(source) is list or type(source) is tuple:
            return [source[index] for index in wrapped]
        batched = getattr(source, "__getitems__", None)
        if batched is not None:
            try:
                given = batched(wrapped)
                records = [] if given is None else list(given)
            except Exception:
                # One by one below, to find the record that failed and keep those before it.
                pass
            else:
                if len(records) == len(wrapped):
                    return records
                # Reading one by one might succeed and hide the fault.
                wrong = _miscounted(source, "__getitems__", len(records), wrapped)
                note_element(wrong, self, int(indices[0]))
                return PartialRead([], wrong)
        elements: list[Any] = []
        try:
            elements.extend(map(source.__getitem__, wrapped))
        except Exception as error:
            self._note(error, int(indices[len(elements)]))
            return PartialRead(elements, error)
        if len(elements) < len(wrapped):
            stopped = _stopped(source)
            note_element(stopped, self, int(indices[len(elements)]))
            return PartialRead(elements, stopped)
        return elements

    @calls_user_code
    def read_one(self, index: int) -> Any:
        source = self._source
        if type(source) is list or type(source) is tuple:
            return source[index % len(source)]
        if hasattr(source, "__getitems__"):
            return super().read_one(index)
        try:
            return source[index % len(source)]
        except StopIteration:
            error = _stopped(source)
        except Exception as raised:
            self._note(raised, index)
            raise
        self._note(error, index)
        raise error

    def _note(self, error: Exception, index: int) -> None:
        if isinstance(self._source, Mapping) and isinstance(error, KeyError):
            error.add_note(_READ_BY_INDEX)
        note_element(error, self, index)

    @classmethod
    def combine(cls, nodes: Sequence[SourceMapDataset[Any]]) -> CombinedReader | None:
        sources = [node._source for node in nodes]
        if any(hasattr(source, "__getitems__") for source in sources):
            return None
        return _CombinedSource(nodes, sources)

    def read_columns(self, indices: IndexArray) -> Any:
        source = self._source
        if type(source) is np.ndarray:
            if source.dtype.kind not in _STACKABLE or not source.dtype.isnative:
                return None
            rows = allocate((indices.size, *source.shape[1:]), source.dtype)
            # All indices are inside: mode="clip" makes numpy write to `rows` directly, without a buffer.
            return np.take(source, self._wrapped(indices), axis=0, out=rows, mode="clip")
        read = getattr(source, "__getcolumns__", None)
        if read is None or not indices.size:
            return None
        wrapped = self._wrapped(indices)
        try:
            columns = read(wrapped)
        except Exception:
            # Reading one by one finds the record that failed, and keeps those before it.
            return None
        if columns is None or not _are_columns(columns):
            return None
        for column in tree.leaves(columns):
            if len(column) != indices.size:
                wrong = _miscounted(source, "__getcolumns__", len(column), wrapped.tolist())
                note_element(wrong, self, int(indices[0]))
                raise wrong
        return _writeable(columns)

    @computed
    def is_read_together(self) -> bool:
        return hasattr(self._source, "__getitems__")

    @computed
    def is_columnar(self) -> bool:
        return type(self._source) is np.ndarray or hasattr(self._source, "__getcolumns__")

    @computed
    def is_dense(self) -> bool:
        return type(self._source) is np.ndarray

    def fingerprint(self) -> list[lines.Line]:
        return lines.source_lines(self._source)

    def written_call(self) -> str:
        return f"MapDataset.source({written_form.source_text(self._source)})"

    def infer_element_spec(self) -> Any:
        source = self._source
        if type(source) is np.ndarray:
            return ShapeDtypeStruct(source.shape[1:], source.dtype)
        given = getattr(source, "element_spec", None)
        if given is not None:
            return given() if callable(given) else given
        in_memory = type(source) in (list, tuple) or hasattr(source, "holds_records_in_memory")
        if in_memory and len(source):
            return spec_of(source[0])  # Looking at an element costs nothing.
        raise NotImplementedError(
            f"`element_spec` inference is not implemented for {type(self).__name__}: "
            f"{type(source).__name__} has no attribute `element_spec` that gives the spec of its "
            "records."
        )


class _CombinedSource(CombinedReader):
    """Reads records of several sources one by one."""

    def __init__(self, nodes: Sequence[SourceMapDataset[Any]], sources: Sequence[Any]):
        super().__init__(nodes)
        self._sources = sources

    def read_many(self, chosen: IndexArray, indices: IndexArray) -> list[Any]:
        sources = [self._sources[number] for number in chosen.tolist()]
        pairs = zip(sources, indices.tolist(), strict=True)
        try:
            return [source[index % len(source)] for source, index in pairs]
        except Exception:
            # Read again below, to find the record that failed and keep those before it.
            return gather(self.nodes, chosen, indices)


def _stopped(source: Any) -> RuntimeError:
    return RuntimeError(f"{type(source).__name__}.__getitem__ raised StopIteration.")


def _miscounted(source: Any, method: str, given: int, requested: list[int]) -> ValueError:
    shown = ", ".join(map(str, requested[:5])) + (", ..." if len(requested) > 5 else "")
    return ValueError(
        f"{type(source).__name__}.{method} returned {given} records for {len(requested)} indices "
        f"({shown}); it must return one for each, in their order, repeats included."
    )


def _are_columns(columns: Any) -> bool:
    return all(isinstance(leaf, np.ndarray) and leaf.shape for leaf in tree.leaves(columns))


def _writeable(columns: Any) -> Any:
    """Return columns that the user may write to."""
    if all(column.flags.writeable for column in tree.leaves(columns)):
        return columns
    return tree.map_leaves(np.copy, columns)  # A view of the source's memory.


class RangeMapDataset(IndexedMapDataset[int]):
    """Consecutive integers, like Python's `range`."""

    def __init__(self, start: int, stop: int | None = None, step: int = 1):
        super().__init__()
        # Numbers of numpy would keep their type in elements, and overflow.
        self.start = 0 if stop is None else operator.index(start)
        self.stop = operator.index(start if stop is None else stop)
        self.step = operator.index(step)
        self._length = len(range(self.start, self.stop, self.step))

    def __len__(self) -> int:
        return self._length

    def __str__(self) -> str:
        return f"RangeMapDataset(start={self.start}, stop={self.stop}, step={self.step})"

    def to_iter_dataset(
        self, read_options: ReadOptions | None = None, *, allow_nones: bool = False
    ) -> IterDataset[int]:
        """Return an iter dataset that reads nothing ahead: numbers are quick."""
        options = ReadOptions(prefetch_buffer_size=0) if read_options is None else read_options
        return super().to_iter_dataset(options, allow_nones=allow_nones)

    accepts_state = IndexedMapDataset.accepts_state

    def read_one(self, index: int) -> int:
        return self.start + index % self._length * self.step

    @classmethod
    def combine(cls, nodes: Sequence[RangeMapDataset]) -> CombinedReader | None:
        if not all(node.is_columnar for node in nodes):
            return None
        values = [(node.start, node.step, len(node)) for node in nodes]
        return _CombinedRange(nodes, np.array(values, dtype=np.int64))

    def read_many(self, indices: IndexArray) -> list[Any]:
        if not indices.size:
            return []
        if indices.size <= _FEW or not self.is_columnar:
            return list(map(self.read_one, indices.tolist()))
        numbers: list[Any] = self._values(indices).tolist()
        return numbers

    def read_columns(self, indices: IndexArray) -> Any:
        return self._values(indices) if self.is_columnar and indices.size else None

    @computed_once
    def is_columnar(self) -> bool:
        # The arithmetic of arrays ends at 64 bits; that of Python does not.
        return max(abs(self.start), abs(self.stop), abs(self.step)) < 2**62

    def _values(self, indices: IndexArray) -> IndexArray:
        return self.start + (indices % self._length) * self.step

    @computed
    def is_dense(self) -> bool:
        return True

    def fingerprint(self) -> list[lines.Line]:
        return [lines.Line("source", repr(range(self.start, self.stop, self.step)))]

    def written_call(self) -> str:
        if self.step != 1:
            return f"MapDataset.range({self.start}, {self.stop}, {self.step})"
        start = f"{self.start}, " if self.start else ""
        return f"MapDataset.range({start}{self.stop})"

    def infer_element_spec(self) -> Any:
        return ShapeDtypeStruct((), np.dtype(np.int64))


class _CombinedRange(CombinedReader):
    """Computes integers of several ranges."""

    def __init__(self, nodes: Sequence[RangeMapDataset], values: IndexArray):
        super().__init__(nodes)
        self._starts, self._steps, self._lengths = values.T.copy()

    def read_many(self, chosen: IndexArray, indices: IndexArray) -> list[Any]:
        numbers: list[Any] = self.read_columns(chosen, indices).tolist()
        return numbers

    def read_columns(self, chosen: IndexArray, indices: IndexArray) -> Any:
        return self._starts[chosen] + indices % self._lengths[chosen] * self._steps[chosen]
