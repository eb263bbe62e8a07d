"""Transforms with one fault each."""

from __future__ import annotations

import os
import random
import threading
import time
from typing import Any

import numpy as np

import grain

from .good import GoodFilter, GoodFlatMap, GoodMap, GoodRandomMap


class FailsOnSome(GoodMap):
    def map(self, element: Any) -> Any:
        if element["id"] == 3:
            raise ValueError("no threes")
        return super().map(element)


class FilterReturnsTheElement(GoodFilter):
    def filter(self, element: Any) -> Any:
        return element["row"]


class FlatMapReturnsTooMany(GoodFlatMap):
    def flat_map(self, element: Any) -> Any:
        return [element["id"]] * 4


class MapsWrongly(GoodMap):
    def map(self, element: Any) -> Any:
        return {**element, "row": element["row"] * 3}


class DrawsFromNumpy(GoodMap):
    def map(self, element: Any) -> Any:
        return {**element, "row": element["row"] + np.random.normal()}  # noqa: NPY002


class DrawsFromPython(GoodMap):
    def map(self, element: Any) -> Any:
        return {**element, "row": element["row"] + random.random()}


class SeedsNumpy(GoodMap):
    """Repeatable, but resets the random numbers of all other code."""

    def map(self, element: Any) -> Any:
        np.random.seed(int(element["id"]))  # noqa: NPY002
        return {**element, "row": element["row"] + np.random.normal()}  # noqa: NPY002


class ChangesItsInput(GoodMap):
    def map(self, element: Any) -> Any:
        element["row"] *= 2
        return dict(element)


class AddsToItsInput(GoodMap):
    def map(self, element: Any) -> Any:
        result = super().map(element)
        element["seen"] = True
        return result


class HoldsALock(GoodMap):
    def __init__(self) -> None:
        self._lock = threading.Lock()


class HoldsALockOnceUsed(GoodMap):
    _lock: Any = None

    def map(self, element: Any) -> Any:
        self._lock = self._lock or threading.Lock()
        return super().map(element)


_TABLE: dict[str, float] = {}


class LooksUpAModuleVariable(GoodMap):
    def __init__(self) -> None:
        _TABLE["factor"] = 2

    def map(self, element: Any) -> Any:
        return {**element, "row": element["row"] * np.float32(_TABLE["factor"])}


class PicklesATable(GoodMap):
    def __init__(self) -> None:
        self._table = np.random.default_rng(0).random(100_000)


class PicklesInputsSeen(GoodMap):
    def __init__(self) -> None:
        self._seen: list[Any] = []

    def map(self, element: Any) -> Any:
        self._seen.append(np.zeros(200))
        return super().map(element)


class Counts(GoodMap):
    _count = 0

    def map(self, element: Any) -> Any:
        self._count += 1
        return {**super().map(element), "count": self._count}


class RemembersTheLast(GoodMap):
    """Depends on the previous element, but not on repeated calls."""

    _last: Any = 0
    _before: Any = 0

    def map(self, element: Any) -> Any:
        if element["id"] != self._last:
            self._before, self._last = self._last, element["id"]
        return {**super().map(element), "before": self._before}


class DrawsItsFactor(GoodMap):
    def __init__(self) -> None:
        self._factor = int.from_bytes(os.urandom(2), "little")

    def map(self, element: Any) -> Any:
        return {**element, "row": element["row"] * self._factor}


class Hashes(GoodMap):
    def map(self, element: Any) -> Any:
        return {**super().map(element), "digest": hash(f"text {element['id']}")}


class SharesScratch(GoodMap):
    _scratch: Any = None

    def map(self, element: Any) -> Any:
        self._scratch = element["row"] * 2
        time.sleep(0)
        return {**element, "row": self._scratch}


class ReusesOneResult(GoodMap):
    def __init__(self) -> None:
        self._local = threading.local()

    def map(self, element: Any) -> Any:
        if not hasattr(self._local, "out"):
            self._local.out = np.zeros_like(element["row"])
        np.multiply(element["row"], 2, out=self._local.out)
        return {**element, "row": self._local.out}

    def __getstate__(self) -> dict[str, Any]:
        return {}

    def __setstate__(self, state: Any) -> None:
        self.__init__()


class ReturnsItsTable(GoodMap):
    def __init__(self) -> None:
        self._offsets = np.arange(3.0)

    def map(self, element: Any) -> Any:
        return {**super().map(element), "offsets": self._offsets}


class LeaksAFilePerCall(GoodMap):
    def __init__(self) -> None:
        self._files: list[Any] = []

    def map(self, element: Any) -> Any:
        self._files.append(open(os.devnull, "rb"))  # noqa: SIM115
        return super().map(element)

    def __getstate__(self) -> dict[str, Any]:
        return {"_files": []}

    def __del__(self) -> None:
        for file in self._files:
            file.close()


class StartsAThread(GoodRandomMap):
    def __init__(self) -> None:
        self._end = threading.Event()
        threading.Thread(target=self._end.wait, daemon=True).start()

    def __reduce__(self) -> Any:
        return StartsAThread, ()


class LeaksAFilePerInstance(grain.transforms.MapWithIndex):
    """Keeps a file open for each instance forever."""

    def __init__(self) -> None:
        _OPENED.append(open(os.devnull, "rb"))  # noqa: SIM115

    def map_with_index(self, index: int, element: Any) -> Any:
        return {**element, "index": index}


_OPENED: list[Any] = []


# results, generators, exceptions and batch functions


class ReturnsNothing(GoodMap):
    """None is dropped like a filtered element."""

    def map(self, element: Any) -> Any:
        return super().map(element) if element["id"] % 2 else None


class ReturnsAGenerator(GoodMap):
    def map(self, element: Any) -> Any:
        return (number for number in element["row"])


class FlatMapReturnsAGenerator(GoodFlatMap):
    def flat_map(self, element: Any) -> Any:
        return iter([element["id"]])


class FilterReturnsANumber(GoodFilter):
    def filter(self, element: Any) -> Any:
        return int(element["id"]) % 2


class IgnoresItsGenerator(GoodRandomMap):
    """Every element gets the same random number."""

    def random_map(self, element: Any, rng: np.random.Generator) -> Any:
        return super().random_map(element, np.random.default_rng(0))


class SeedsFromTheElement(GoodRandomMap):
    """Every epoch gets the same random numbers."""

    def random_map(self, element: Any, rng: np.random.Generator) -> Any:
        return super().random_map(element, np.random.default_rng(int(element["id"])))


class KeepsItsGenerator(GoodRandomMap):
    """Draws all numbers from the generator of the first element."""

    _rng: Any = None

    def random_map(self, element: Any, rng: np.random.Generator) -> Any:
        if self._rng is None:
            self._rng = rng
        return super().random_map(element, self._rng)


class AcceptsAnything(GoodMap):
    def map(self, element: Any) -> Any:
        return super().map(element) if "row" in element else element


class EndsTheStream(GoodMap):
    def map(self, element: Any) -> Any:
        if "row" not in element:
            raise StopIteration
        return super().map(element)


class BadRecordError(ValueError):
    """An exception that cannot be unpickled: it has one argument, and passes on none."""

    def __init__(self, element: Any, number: int):
        super().__init__(f"bad record {element!r}")
        self.number = number


class RaisesWhatCannotBeSent(GoodMap):
    def map(self, element: Any) -> Any:
        if "row" not in element:
            raise BadRecordError(element, 3)
        return super().map(element)


class BreaksAfterAnError(GoodMap):
    _failed = False

    def map(self, element: Any) -> Any:
        if "row" not in element:
            self._failed = True
            raise ValueError("no row")
        return {**super().map(element), "failed": self._failed}


def _first_two(elements: Any) -> Any:
    return np.stack([elements[0]["row"], elements[1]["row"]])


def _four_rows(elements: Any) -> Any:
    return np.stack([elements[number]["row"] for number in range(4)])


def _needs_a_list(elements: Any) -> Any:
    elements.reverse()
    return np.stack([each["row"] for each in reversed(elements)])


def _sorts_in_place(elements: Any) -> Any:
    for each in elements:
        each["row"].sort()
        each["row"] += 1
    return np.stack([each["row"] for each in elements])


_SHARED = np.zeros((4, 3), np.float32)


def _reuses_a_buffer(elements: Any) -> Any:
    out = _SHARED[: len(elements)]
    for number, each in enumerate(elements):
        out[number] = each["row"]
    return out


def _returns_nothing(elements: Any) -> Any:
    return None if len(elements) == 1 else np.stack([each["row"] for each in elements])


def needs_two_elements() -> Any:
    return grain.transforms.Batch(4, batch_fn=_first_two)


def needs_four_elements() -> Any:
    return grain.transforms.Batch(4, batch_fn=_four_rows)


def needs_a_list() -> Any:
    return grain.transforms.Batch(4, batch_fn=_needs_a_list)


def drops_single_elements() -> Any:
    return grain.transforms.Batch(4, batch_fn=_returns_nothing)


def batch_changes_its_input() -> Any:
    return grain.transforms.Batch(4, batch_fn=_sorts_in_place)


def batch_reuses_a_buffer() -> Any:
    return grain.transforms.Batch(4, batch_fn=_reuses_a_buffer)
