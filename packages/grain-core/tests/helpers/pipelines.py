"""Small pipelines, and what an iterator over them does at each step."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
from tests.parity.encoding import encode

import grain

INLINE = grain.ReadOptions(num_threads=0, prefetch_buffer_size=0)
"""Read options without read-ahead: elements are computed in the consumer's thread."""


def numbers(*bounds: int) -> grain.IterDataset[Any]:
    """Return `range(*bounds)` as an iter dataset without read-ahead; 6 numbers by default."""
    return grain.MapDataset.range(*(bounds or (6,))).to_iter_dataset(INLINE)


def with_workers(
    dataset: grain.IterDataset[Any], count: int, **options: Any
) -> grain.IterDataset[Any]:
    """Return the dataset computed by `count` worker processes; 0 for none."""
    return dataset.mp_prefetch(grain.MultiprocessingOptions(num_workers=count, **options))


class Twice(grain.transforms.FlatMap):
    """A transformation that yields every element twice."""

    max_fan_out = 2

    def flat_map(self, element: Any) -> list[Any]:
        return [element, element]


class ForwardingIterDataset(grain.IterDataset[Any]):
    """A dataset as users write it, with only an `__iter__`: the elements of its parent."""

    def __iter__(self) -> grain.DatasetIterator[Any]:
        return ForwardingIterator(iter(self._parent))


class ForwardingIterator(grain.DatasetIterator[Any]):
    """The iterator of a `ForwardingIterDataset`; its state wraps the parent's."""

    def __next__(self) -> Any:
        return next(self._parent)

    def get_state(self) -> Any:
        return {"own": self._parent.get_state()}

    def set_state(self, state: Any) -> None:
        self._parent.set_state(state["own"])


def plain(value: Any) -> Any:
    """Return an element in a form that `==` compares as a whole, with the types of its arrays."""
    if isinstance(value, np.ndarray):
        return ("array", str(value.dtype), value.shape, value.tolist())
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return value


def take(iterator: Any, count: int) -> list[Any]:
    """Return the next elements in their plain form: `count` of them, or fewer at the end."""
    return [plain(element) for _, element in zip(range(count), iterator, strict=False)]


def through_json(state: Any) -> Any:
    """Return a state as it is read back from a file."""
    return json.loads(state if isinstance(state, bytes) else json.dumps(state))


def step(iterator: Any) -> tuple[str, Any, Any]:
    """Advance an iterator; return the kind of outcome, its value, and the state after it."""
    try:
        kind, value = "element", encode(next(iterator))
    except StopIteration:
        kind, value = "end", None
    except Exception as error:
        # Which frames of the library a traceback had depends on where the element was computed.
        notes = [note for note in getattr(error, "__notes__", []) if "frames inside" not in note]
        kind, value = "error", [type(error).__name__, str(error), notes]
    return kind, value, through_json(iterator.get_state())


def steps(iterator: Any, most: int = 400) -> list[tuple[str, Any, Any]]:
    """Return all steps up to the end, or to an error that is raised three times in a row."""
    found: list[tuple[str, Any, Any]] = []
    while len(found) < most:
        found.append(step(iterator))
        if found[-1][0] == "end" or (found[-1][0] == "error" and found[-3:-1] == [found[-1]] * 2):
            break
    return found
