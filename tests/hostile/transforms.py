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
