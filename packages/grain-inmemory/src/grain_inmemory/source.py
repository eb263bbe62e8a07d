"""Elements stored once in shared memory, for any number of processes."""

from __future__ import annotations

import operator
import os
import weakref
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, SupportsIndex

import numpy as np

from grain_inmemory import layout, segment
from grain_inmemory.layout import Table
from grain_inmemory.segment import Segment


class SharedMemoryDataSource(Sequence[Any]):
    """A sequence whose elements are stored in shared memory.

    Args:
        elements: A sequence or other iterable of elements of any picklable kind; an array, whose
            rows are the elements; or a dict of equally long arrays, whose elements are dicts of
            one row each. The elements are copied.
        name: With elements, the name for the shared memory instead of a random one. Without, the
            name of existing shared memory to attach to; it must belong to the user of this process,
            and hold arrays, numbers, text, bytes or None. Elements of other types are pickled, and
            nothing that is attached by name alone is unpickled.

    The process that created the source owns the memory, which is released by `unlink()`, by
    leaving a `with` block, when the source is garbage-collected and when the process exits,
    whichever comes first. A pickled source contains only the name, and unpickling attaches. Reading
    a closed source attaches again.

    Example:
        >>> with SharedMemoryDataSource(["a", None, 2.5]) as source:
        ...     source[0], source[2], len(source)
        ('a', 2.5, 3)
    """

    def __init__(
        self,
        elements: Iterable[Any] | Mapping[str, Any] | None = None,
        *,
        name: str | None = None,
    ) -> None:
        self._release: weakref.finalize[..., Any] | None = None
        if elements is None:
            if name is None:
                raise ValueError("Elements or name must be provided.")
            self._trusted = False
            self._attach(name)
            return
        self._trusted = True
        size, fill = layout.serialize(*layout.lay_out(elements))
        memory = segment.create(size, name, fill)
        self._release = weakref.finalize(self, segment.release, memory, os.getpid())
        self._attach(memory.name)

    def _attach(self, name: str) -> Table:
        memory = segment.attach(name)
        table, self._digest = layout.open_table(name, memory, trusted=self._trusted)
        self._segment = Segment(name, len(memory))
        self._length = len(table)
        # Released by dropping the reference, never by unmapping memory that a thread may read.
        self._table: Table | None = table
        return table

    @property
    def name(self) -> str:
        """Name of the shared memory, by which other processes attach."""
        return self._segment.name

    @property
    def shm(self) -> Segment:
        """Name and size of the shared memory."""
        return self._segment

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, index: SupportsIndex) -> Any:  # type: ignore[override]
        index = operator.index(index)
        if not -self._length <= index < self._length:
            raise self._index_error(index)
        return self._live_table().read_one(index % self._length)

    def __getitems__(self, indices: Sequence[int] | np.ndarray) -> list[Any]:
        """Return elements in the order of `indices`."""
        return self._live_table().read_many(self._check_indices(indices))

    def __getcolumns__(self, indices: Sequence[int] | np.ndarray) -> Any:
        """Return elements stacked into arrays, or None if they do not stack."""
        return self._live_table().read_columns(self._check_indices(indices))

    def _check_indices(self, indices: Sequence[int] | np.ndarray) -> np.ndarray:
        wanted = np.asarray(indices)
        if wanted.size == 0:
            return np.empty(0, np.int64)
        if wanted.ndim != 1 or wanted.dtype.kind not in "iu":
            raise TypeError(
                "indices must be a flat sequence of integers, got an array of "
                f"{wanted.dtype} with shape {wanted.shape}."
            )
        low, high = int(wanted.min()), int(wanted.max())
        if low < -self._length or high >= self._length:
            raise self._index_error(low if low < -self._length else high)
        wanted = wanted.astype(np.int64, copy=False)
        return wanted if low >= 0 else wanted % self._length

    def _live_table(self) -> Table:
        table = self._table
        return self._attach(self.name) if table is None else table

    def _index_error(self, index: int) -> IndexError:
        return IndexError(f"index out of range: {index} for a source of {self._length} elements.")

    def close(self) -> None:
        """Release this process's view of the memory; reading attaches again."""
        self._table = None

    def unlink(self) -> None:
        """Remove the shared memory; attached sources keep it until they are closed."""
        if self._release is not None:
            self._release()
        else:
            segment.unlink(self.name)

    def __enter__(self) -> SharedMemoryDataSource:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()
        if self._release is not None:
            self._release()

    def __getstate__(self) -> dict[str, Any]:
        return {"name": self.name, "trusted": self._trusted}

    def __setstate__(self, state: dict[str, Any]) -> None:
        # The pickle of a source is trusted as any pickle is, so its elements may be unpickled, too.
        self._release = None
        self._trusted = state["trusted"]
        self._attach(state["name"])

    def __repr__(self) -> str:
        # Stored in checkpoints and compared on restore: the contents count, not the random name.
        return f"SharedMemoryDataSource(len={self._length}, digest={self._digest})"

    def __str__(self) -> str:
        return f"InMemoryDataSource(name={self.name}, len={self._length})"


InMemoryDataSource = SharedMemoryDataSource
