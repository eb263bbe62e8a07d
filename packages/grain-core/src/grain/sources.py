"""Data sources: their contract, a range of integers, columns, and the sources of installed plugins.

Plugins' sources, such as `grain.sources.ParquetDataSource`, are imported on first use.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from operator import index as as_index
from typing import TYPE_CHECKING, Any, Protocol, SupportsIndex, TypeVar, runtime_checkable

import numpy as np

from grain._lazy import PluginRegistry, lazy_names

if TYPE_CHECKING:
    from grain.columnar.columnar_source import ColumnarDataSource

if TYPE_CHECKING:
    from grain_arrayrecord import ArrayRecordDataSource as ArrayRecordDataSource
    from grain_inmemory import InMemoryDataSource as InMemoryDataSource
    from grain_inmemory import SharedMemoryDataSource as SharedMemoryDataSource
    from grain_parquet import ParquetDataSource as ParquetDataSource
    from grain_tfds import TfdsDataSource as TfdsDataSource

__all__ = ["ColumnarDataSource", "RandomAccessDataSource", "RangeDataSource", "open"]

T_co = TypeVar("T_co", covariant=True)
Indices = Sequence[int] | np.ndarray[Any, Any]


@runtime_checkable
class RandomAccessDataSource(Protocol[T_co]):
    """Records that can be read in any order: anything with `len(source)` and `source[index]`.

    A source may have two more methods, which the core uses when they exist: `__getitems__(indices)`
    returns many records at once, as a list, and `__getcolumns__(indices)` returns them stacked, as
    the tree of arrays that batching them would make. A source must be picklable to be used with worker
    processes, and its `repr` must be the same in all processes, because checkpoints compare it.

    Example:
        >>> isinstance(["a", "b"], RandomAccessDataSource)
        True
    """

    def __len__(self) -> int:
        """Return the number of records."""
        ...

    def __getitem__(self, index: int) -> T_co:
        """Return the record at `index`, 0 <= index < len(self)."""
        ...


@dataclass(frozen=True)
class RangeDataSource:
    """The integers `start`, `start + step`, … up to but not including `stop`.

    Example:
        >>> source = RangeDataSource(start=0, stop=10, step=3)
        >>> len(source), source[2], source.__getcolumns__([3, 0])
        (4, 6, array([9, 0]))
    """

    start: int
    stop: int
    step: int

    def __post_init__(self) -> None:
        for field in ("start", "stop", "step"):
            value = getattr(self, field)
            try:
                object.__setattr__(self, field, as_index(value))
            except TypeError:
                raise TypeError(
                    f"RangeDataSource({field}=…) got {value!r}, expected an integer."
                ) from None
        # google/grain's exception type, raised under `python -O` too.
        if self.step == 0:
            # Message kept from google/grain 0.2.18
            raise AssertionError("step can't be zero.")
        if (self.stop - self.start) * self.step < 0:
            raise AssertionError(
                f"length can't be negative: {self.stop} is not reached from {self.start} in"
                f" steps of {self.step}."
            )

    # Not the one of dataclasses, which an interrupt can leave at "...": states have this text.
    def __repr__(self) -> str:
        return (
            f"{type(self).__qualname__}(start={self.start!r}, stop={self.stop!r}, "
            f"step={self.step!r})"
        )

    @property
    def _range(self) -> range:
        return range(self.start, self.stop, self.step)

    def __len__(self) -> int:
        return len(self._range)

    def __getitem__(self, index: SupportsIndex) -> int:
        position = as_index(index)
        if not 0 <= position < len(self):
            # Message kept from google/grain 0.2.18
            raise IndexError(f"Index {position} out of range for {len(self)}")
        return self._range[position]

    def __getitems__(self, indices: Indices) -> list[int]:
        """Return the records at `indices`, in that order."""
        positions = self._positions(indices)
        if self._fits_int64:
            values: list[int] = (self.start + positions * self.step).tolist()
            return values
        return [self._range[position] for position in positions.tolist()]

    def __getcolumns__(self, indices: Indices) -> np.ndarray[Any, Any]:
        """Return the records at `indices` as one array: int64, or Python integers beyond 64 bits."""
        positions = self._positions(indices)
        if self._fits_int64:
            return self.start + positions * self.step
        return np.asarray([self._range[position] for position in positions.tolist()], dtype=object)

    @property
    def _fits_int64(self) -> bool:
        limits = np.iinfo(np.int64)
        values = (self.start, self.step, self._range[-1] if len(self) else self.start)
        return limits.min <= min(values) and max(values) <= limits.max

    def _positions(self, indices: Indices) -> np.ndarray[Any, np.dtype[np.int64]]:
        """Return `indices` as one array of valid indices."""
        positions = np.asarray(indices)
        if positions.dtype.kind not in "iu":  # an empty list, integers beyond 64 bits, or a mistake
            for position in indices:
                self[position]
            positions = np.asarray([as_index(position) for position in indices], dtype=np.int64)
        outside = (positions < 0) | (positions >= len(self))
        if outside.any():
            # Message kept from google/grain 0.2.18
            raise IndexError(f"Index {positions[outside][0]} out of range for {len(self)}")
        return positions.astype(np.int64, copy=False)


def open(uri: str | os.PathLike[str], /, **options: Any) -> Any:  # noqa: A001
    """Open a source, chosen by the URI's scheme or the suffix of its file name, never by contents.

    A plugin's scheme is removed: `parquet:///data/*.parquet` becomes `/data/*.parquet`, and
    `parquet+s3://bucket/key` becomes `s3://bucket/key`. Otherwise the path or URI is passed on
    unchanged, and so are the options.

    Example:
        source = grain.sources.open("parquet:///data/*.parquet", columns=["text"])
        source = grain.sources.open("train.array_record")
    """
    return PluginRegistry.installed.open_source(uri, **options)


if not TYPE_CHECKING:  # With it, a type checker would accept every name.
    __getattr__, __dir__ = lazy_names(
        __name__,
        {"grain.columnar.columnar_source": ["ColumnarDataSource"]},
        from_plugins=lambda name: True,
    )
