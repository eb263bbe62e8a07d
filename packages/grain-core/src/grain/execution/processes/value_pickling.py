"""Picklers of objects by value, which a process that imports the same modules could not look up."""

from __future__ import annotations

from typing import Any

import cloudpickle
import numpy as np

from grain.execution.processes.array_reduction import reduce_array
from grain.execution.processes.mapped_files import reduce_mapped
from grain.memory.allocation import Allocator, plain_allocator


class ValuePickler(cloudpickle.Pickler):
    """Pickler of functions and classes of `__main__`, lambdas and closures by value."""

    allocate: Allocator

    def reducer_override(self, obj: Any) -> Any:
        if type(obj) is np.ndarray:
            return reduce_array(obj, self.allocate)
        return super().reducer_override(obj)  # type: ignore[no-untyped-call]


class JobPickler(ValuePickler):
    """Pickler of objects that workers keep, which may refer to files by their path."""

    allocate = staticmethod(plain_allocator)

    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, np.ndarray) and obj.base is not None:
            reduced = reduce_mapped(obj)
            if reduced is not NotImplemented:
                return reduced
        return super().reducer_override(obj)


class SharingPickler(JobPickler):
    """Pickler that refers to some objects by their number.

    Args:
        file: The file to write to.
        numbers: The numbers of these objects, by their `id`.
    """

    def __init__(self, file: Any, numbers: dict[int, int]) -> None:
        super().__init__(file, protocol=5)  # type: ignore[no-untyped-call]
        self._numbers = numbers

    def persistent_id(self, obj: Any) -> int | None:
        return self._numbers.get(id(obj))
