"""Own dataset classes: good ones, and some with one fault each."""

from __future__ import annotations

import itertools
import os
from typing import Any

import numpy as np

import grain

ROWS = np.arange(36, dtype=np.int64).reshape(12, 3)


class GoodRows(grain.MapDataset):
    """Rows of a parent, times a factor."""

    fingerprint_name = "scaled_rows"

    def __init__(self, parent: Any, factor: int = 2):
        super().__init__(parent)
        self.factor = factor

    def __len__(self) -> int:
        return len(self._parent)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return self.slice(index)
        row = self._parent[index]
        return None if row is None else self.scaled(row)

    def scaled(self, row: Any) -> Any:
        return row * self.factor

    def fingerprint_arguments(self) -> dict[str, Any]:
        return {"factor": self.factor}

    def infer_element_spec(self) -> Any:
        return grain.experimental.get_element_spec(self._parent)


class GoodSums(grain.IterDataset):
    """Sums of all elements so far."""

    fingerprint_name = "running_sums"

    def __init__(self, parent: Any, start: int = 0):
        super().__init__(parent)
        self.start = start

    def make_iterator(self, parents: Any) -> Any:
        return self.iterator(parents[0], self.start)

    def fingerprint_arguments(self) -> dict[str, Any]:
        return {"start": self.start}

    def infer_element_spec(self) -> Any:
        return grain.experimental.get_element_spec(self._parent)

    def known_length(self) -> Any:
        return self._parent.known_length()

    class iterator(grain.DatasetIterator):
        def __init__(self, parent: Any, start: int):
            super().__init__(parent)
            self.sum: Any = np.full(3, start, np.int64)

        def __next__(self) -> Any:
            self._assert_not_closed()
            self.sum = self.sum + next(self._parent)
            return self.sum.copy()

        def get_state(self) -> Any:
            return {"parent": self._parent.get_state(), "sum": self.sum.tolist()}

        def set_state(self, state: Any) -> None:
            self._parent.set_state(state["parent"])
            self.sum = np.array(state["sum"], np.int64)


def rows(kind: type = GoodRows, *arguments: Any) -> Any:
    return kind(grain.MapDataset.source(ROWS), *arguments)


def sums(kind: type = GoodSums, *arguments: Any) -> Any:
    return kind(grain.MapDataset.source(ROWS).to_iter_dataset(), *arguments)


# map datasets


class IsNotAMapDataset:
    """Has the methods that are needed, but is no dataset."""

    def __init__(self, parent: Any):
        self._rows = GoodRows(parent)

    def __len__(self) -> int:
        return len(self._rows)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self._rows, name)

    def __getitem__(self, index: Any) -> Any:
        return self._rows[index]

    def __getitems__(self, indices: Any) -> Any:
        return self._rows.__getitems__(indices)

    def __getstate__(self) -> Any:
        return self.__dict__

    def __setstate__(self, state: Any) -> None:
        self.__dict__.update(state)


class RefusesLaterEpochs(GoodRows):
    def __getitem__(self, index: Any) -> Any:
        if not isinstance(index, slice) and index >= len(self):
            raise IndexError("list index out of range")
        return super().__getitem__(index)


class DrawsInLaterEpochs(GoodRows):
    """Repeatable in the first epoch only."""

    def __getitem__(self, index: Any) -> Any:
        if not isinstance(index, slice) and index >= len(self):
            return super().__getitem__(index) + int.from_bytes(os.urandom(4), "little")
        return super().__getitem__(index)


class RefusesSlices(GoodRows):
    def __getitem__(self, index: Any) -> Any:
        return self.scaled(self._parent[int(index)])


class SlicesToAList(GoodRows):
    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [self[n] for n in range(*index.indices(len(self)))]
        return super().__getitem__(index)


class SlicesFromTheStart(GoodRows):
    """Ignores where a slice starts."""

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            count = len(range(*index.indices(len(self))))
            return self.slice(slice(0, count))
        return super().__getitem__(index)


class ManyReadsSort(GoodRows):
    def __getitems__(self, indices: Any) -> list[Any]:
        return [self[index] for index in sorted(indices)]


class ManyReadsDropRepeats(GoodRows):
    def __getitems__(self, indices: Any) -> list[Any]:
        return [self[index] for index in dict.fromkeys(int(index) for index in indices)]


class ManyReadsShift(GoodRows):
    def __getitems__(self, indices: Any) -> list[Any]:
        return [self[(index + 1) % len(self)] for index in indices]


class ManyReadsNeedOne(GoodRows):
    def __getitems__(self, indices: Any) -> list[Any]:
        first = indices[0]
        return [self[first], *(self[index] for index in indices[1:])]


class ManyReadsRefuseArrays(GoodRows):
    def __getitems__(self, indices: Any) -> list[Any]:
        return [self[index] for index in indices] if indices else []


class ChangesLongDatasets(GoodRows):
    """Wrong in chunks of more than one element, as only a stream reads them."""

    def read_many(self, indices: Any) -> Any:
        return [self.scaled(self._parent[index]) for index in indices][::-1]


class RemembersTheFirstRow(GoodRows):
    _first: Any = None

    def scaled(self, row: Any) -> Any:
        if self._first is None:
            self._first = row
        return super().scaled(row) + self._first


class SharesItsRow(GoodRows):
    """Threads overwrite each other's row."""

    _row: Any = None

    def scaled(self, row: Any) -> Any:
        self._row = row
        return self._row * self.factor


class ReturnsItsOwnRow(GoodRows):
    def __init__(self, parent: Any, factor: int = 2):
        super().__init__(parent, factor)
        self._rows = [parent[n] * factor for n in range(len(parent))]

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return self.slice(index)
        return self._rows[index % len(self)]


class HasAFingerprintWithItsProcess(GoodRows):
    def fingerprint_arguments(self) -> dict[str, Any]:
        return {"process": os.getpid()}


class HasAFingerprintWithACounter(GoodRows):
    _reads = 0

    def scaled(self, row: Any) -> Any:
        self._reads += 1
        return super().scaled(row)

    def fingerprint_arguments(self) -> dict[str, Any]:
        return {"reads": self._reads}


class HasAFingerprintWithAHash(GoodRows):
    def fingerprint_arguments(self) -> dict[str, Any]:
        return {"digest": hash("factor")}


class HasAFingerprintWithoutArguments(GoodRows):
    def fingerprint_arguments(self) -> dict[str, Any]:
        return {}


class HasASpecOfAnotherType(GoodRows):
    def scaled(self, row: Any) -> Any:
        return row * np.float32(self.factor)


class HasASpecOfAnotherShape(GoodRows):
    def scaled(self, row: Any) -> Any:
        return super().scaled(row)[:2]


class HasASpecOfAnotherStructure(GoodRows):
    def scaled(self, row: Any) -> Any:
        return {"row": super().scaled(row)}


class KeepsAFunctionOfItsMethod(GoodRows):
    """A lambda in an attribute, which only cloudpickle accepts."""

    def __init__(self, parent: Any, factor: int = 2):
        super().__init__(parent, factor)
        self._scale = lambda row: row * factor

    def scaled(self, row: Any) -> Any:
        return self._scale(row)


# iter datasets


class ForgetsItsSum(GoodSums):
    class iterator(GoodSums.iterator):
        def set_state(self, state: Any) -> None:
            self._parent.set_state(state["parent"])


class ForgetsItsParent(GoodSums):
    class iterator(GoodSums.iterator):
        def set_state(self, state: Any) -> None:
            self.sum = np.array(state["sum"], np.int64)


class RestoresOnlyBeforeUse(GoodSums):
    class iterator(GoodSums.iterator):
        _used = False

        def __next__(self) -> Any:
            self._used = True
            return super().__next__()

        def set_state(self, state: Any) -> None:
            if not self._used:
                super().set_state(state)


class HasAnArrayAsState(GoodSums):
    class iterator(GoodSums.iterator):
        def get_state(self) -> Any:
            return {"parent": self._parent.get_state(), "sum": self.sum}


class SharesItsStateDict(GoodSums):
    class iterator(GoodSums.iterator):
        def __init__(self, parent: Any, start: int):
            super().__init__(parent, start)
            self._state: dict[str, Any] = {}

        def get_state(self) -> Any:
            self._state.update(super().get_state())
            return self._state


class AdvancesItsParentInGetState(GoodSums):
    class iterator(GoodSums.iterator):
        def get_state(self) -> Any:
            state = super().get_state()
            next(self._parent, None)
            return state


class SharesOneIterator(GoodSums):
    """Iterators share the parent's position."""

    _iterator: Any = None

    def __iter__(self) -> Any:
        if self._iterator is None:
            self._iterator = iter(self._parent)
        return self.iterator(self._iterator, self.start)

    def __getstate__(self) -> Any:
        return {**self.__dict__, "_iterator": None}


class LeavesItsParentOpen(GoodSums):
    class iterator(GoodSums.iterator):
        def close(self) -> None:
            self._closed = True


class EndsWhenClosed(GoodSums):
    class iterator(GoodSums.iterator):
        def __next__(self) -> Any:
            if self._closed:
                raise StopIteration
            return super().__next__()


class FailsWhenClosedTwice(GoodSums):
    class iterator(GoodSums.iterator):
        def close(self) -> None:
            self._assert_not_closed()
            super().close()


class ReturnsItsOwnSum(GoodSums):
    class iterator(GoodSums.iterator):
        def __next__(self) -> Any:
            self.sum += next(self._parent)
            return self.sum

        def set_state(self, state: Any) -> None:
            super().set_state(state)
            self.sum = self.sum.copy()


class ClaimsALength(GoodSums):
    def known_length(self) -> Any:
        return 11


class HasASpecOfInt32(GoodSums):
    def infer_element_spec(self) -> Any:
        return grain.experimental.ShapeDtypeStruct((3,), np.int32)


class HasAFingerprintWithoutStart(GoodSums):
    def fingerprint_arguments(self) -> dict[str, Any]:
        return {}


class HasAFingerprintOfTheIterator(GoodSums):
    _opened = itertools.count()

    def __init__(self, parent: Any, start: int = 0):
        super().__init__(parent, start)
        self._number = next(self._opened)

    def fingerprint_arguments(self) -> dict[str, Any]:
        return {"number": self._number}


class YieldsFromAGenerator(GoodSums):
    """Its iterator has no state."""

    def __iter__(self) -> Any:
        return (row + self.start for row in self._parent)
