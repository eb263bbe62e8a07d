"""Sources that several datasets read from: sent to workers once, and by number from then on.

Datasets that are read by turns are sent to workers one by one, as their turns come. Often they are parts
of one source, which may be large.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Iterator, Sequence
from typing import Any

import cloudpickle


def shared_sources(dataset: Any) -> list[Any]:
    """What more than one of the datasets read by turns in a pipeline reads from."""
    users: dict[int, int] = {}
    found: dict[int, Any] = {}
    for turn in _turns(dataset):
        sources = {id(source): source for source in _sources(turn)}
        found.update(sources)
        for key in sources:
            users[key] = users.get(key, 0) + 1
    return [source for key, source in found.items() if users[key] > 1]


def _turns(dataset: Any) -> Iterator[Any]:
    """The datasets that are read by turns, where they are listed."""
    datasets = getattr(dataset, "_datasets", ())
    if isinstance(datasets, (list, tuple)):
        yield from datasets
        for turn in datasets:
            yield from _turns(turn)
    for parent in getattr(dataset, "_parents", ()):
        yield from _turns(parent)


def _sources(dataset: Any) -> Iterator[Any]:
    parents = getattr(dataset, "_parents", ())
    if not parents:
        yield getattr(dataset, "_source", dataset)
    for parent in parents:
        yield from _sources(parent)


def dumps(value: Any, shared: Sequence[Any]) -> bytes:
    """Pickles by value, except for what the receiver has already."""
    file = io.BytesIO()
    pickler = _Pickler(file, protocol=5)  # type: ignore[no-untyped-call]
    pickler.numbers = {id(part): number for number, part in enumerate(shared)}
    pickler.dump(value)  # type: ignore[no-untyped-call]
    return file.getvalue()


def loads(data: bytes, shared: Sequence[Any]) -> Any:
    """The value, with what the receiver has already in its places."""
    unpickler = _Unpickler(io.BytesIO(data))
    unpickler.shared = shared
    return unpickler.load()


class _Pickler(cloudpickle.Pickler):
    numbers: dict[int, int]

    def persistent_id(self, obj: Any) -> int | None:
        return self.numbers.get(id(obj))


class _Unpickler(pickle.Unpickler):
    shared: Sequence[Any]

    def persistent_load(self, pid: Any) -> Any:
        return self.shared[pid]
