"""Sources that several interleaved datasets read from: sent to workers once, and by number afterwards.

Interleaved datasets are sent to workers one by one, when they are opened. Often they are parts of one
large source.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Iterator, Sequence
from typing import Any

from grain._lazy import LazyModule

# Workers only load what the parent has pickled.
_value_pickling = LazyModule("grain.execution.processes.value_pickling")


def shared_sources(dataset: Any) -> list[Any]:
    """Return the sources that more than one interleaved dataset of a pipeline reads from."""
    users: dict[int, int] = {}
    found: dict[int, Any] = {}
    for nested in _interleaved_datasets(dataset):
        sources = {id(source): source for source in _sources(nested)}
        found.update(sources)
        for key in sources:
            users[key] = users.get(key, 0) + 1
    return [source for key, source in found.items() if users[key] > 1]


def _interleaved_datasets(dataset: Any) -> Iterator[Any]:
    """Yield the datasets that interleaved nodes open, where they are listed."""
    datasets = getattr(dataset, "interleaved_datasets", ())
    if isinstance(datasets, (list, tuple)):
        yield from datasets
        for nested in datasets:
            yield from _interleaved_datasets(nested)
    for parent in dataset.parents:
        yield from _interleaved_datasets(parent)


def _sources(dataset: Any) -> Iterator[Any]:
    if not dataset.parents:
        yield getattr(dataset, "_source", dataset)
    for parent in dataset.parents:
        yield from _sources(parent)


def dumps(value: Any, shared: Sequence[Any]) -> bytes:
    """Pickle by value, with references to the shared objects."""
    file = io.BytesIO()
    numbers = {id(part): number for number, part in enumerate(shared)}
    _value_pickling.SharingPickler(file, numbers).dump(value)
    return file.getvalue()


def loads(data: bytes, shared: Sequence[Any]) -> Any:
    """Return the value of `dumps`, given the same shared objects."""
    unpickler = _Unpickler(io.BytesIO(data))
    unpickler.shared = shared
    return unpickler.load()


class _Unpickler(pickle.Unpickler):
    shared: Sequence[Any]

    def persistent_load(self, pid: Any) -> Any:
        return self.shared[pid]
