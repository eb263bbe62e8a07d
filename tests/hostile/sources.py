"""Map sources with one fault each."""

from __future__ import annotations

import operator
import os
import threading
import time
from typing import Any

import numpy as np

from grain.plugins import Capability

from .good import ALL, COUNT, WIDTH, GoodSource, parse, read_at

# Keeps a race between threads from being a second fault.
_OPENING = threading.Lock()

# indexable


class ClaimsTooMany(GoodSource):
    def __len__(self) -> int:
        return COUNT + 2

    def record(self, index: int) -> Any:
        if index >= COUNT:
            raise RuntimeError("no such record")
        return super().record(index)


class ClaimsTooFew(GoodSource):
    def __len__(self) -> int:
        return COUNT - 1


class OffByOne(GoodSource):
    """Well-formed records, but not those that were written."""

    def record(self, index: int) -> Any:
        return super().record((index + 1) % COUNT)

    def __getitems__(self, indices: Any) -> list[Any]:
        return [self[index] for index in indices]

    def __getcolumns__(self, indices: Any) -> Any:
        return super().__getcolumns__([(index + 1) % COUNT for index in indices])


class RaisesKeyError(GoodSource):
    def __getitem__(self, index: Any) -> Any:
        try:
            return super().__getitem__(index)
        except IndexError as error:
            raise KeyError(index) from error


class WrapsAround(GoodSource):
    def __getitem__(self, index: Any) -> Any:
        return super().__getitem__(operator.index(index) % COUNT)


class CountsBackByOneOnly(GoodSource):
    """`source[-1]` is the last record, but other negative indices are refused."""

    def __getitem__(self, index: Any) -> Any:
        index = operator.index(index)
        return super().__getitem__(COUNT - 1 if index == -1 else index)


class MirrorsNegativeIndices(GoodSource):
    """`source[-1]` is the first record."""

    def __getitem__(self, index: Any) -> Any:
        index = operator.index(index)
        return super().__getitem__(-index - 1 if index < 0 else index)


class RefusesNumpyIntegers(GoodSource):
    def __getitem__(self, index: Any) -> Any:
        if type(index) is not int:
            raise TypeError("an index must be an int")
        return super().__getitem__(index)


# picklable


class HoldsAHandle(GoodSource):
    def __init__(self, directory: str):
        super().__init__(directory)
        self._file = open(self._path, "rb")  # noqa: SIM115

    def close(self) -> None:
        self._file.close()

    def __del__(self) -> None:
        self._file.close()


class HoldsAHandleOnceRead(GoodSource):
    _file: Any = None

    def record(self, index: int) -> Any:
        with _OPENING:
            if self._file is None:
                self._file = open(self._path, "rb")  # noqa: SIM115
        return super().record(index)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    __del__ = close


class ShiftsWhenPickled(GoodSource):
    """The unpickled copy is shifted by one."""

    _shift = 0

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _shift=1)

    def record(self, index: int) -> Any:
        return super().record((index + self._shift) % COUNT)


class ShiftsWhenPickledAfterUse(GoodSource):
    """The last index read is pickled and shifts the copy."""

    _last = 0
    _shift = 0

    def record(self, index: int) -> Any:
        self._last = index
        return super().record((index + self._shift) % COUNT)

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _shift=state.get("_last", 0))


_OPEN_PATHS: dict[int, str] = {}


class LivesInAModuleVariable(GoodSource):
    """Works in a fork, which inherits the variable, but not in a new process."""

    def __init__(self, directory: str):
        super().__init__(directory)
        self._key = len(_OPEN_PATHS)
        _OPEN_PATHS[self._key] = self._path
        del self._path

    def record(self, index: int) -> Any:
        with open(_OPEN_PATHS[self._key], "rb") as file:
            file.seek(index * 4 * WIDTH)
            return parse(file.read(4 * WIDTH))

    def __getitems__(self, indices: Any) -> list[Any]:
        return [self[index] for index in indices]

    def __getcolumns__(self, indices: Any) -> Any:
        records = self.__getitems__(indices)
        return {key: np.stack([record[key] for record in records]) for key in ("id", "row")}

    def __repr__(self) -> str:
        return "LivesInAModuleVariable()"


class PicklesAllData(GoodSource):
    def __init__(self, directory: str):
        super().__init__(directory)
        self._data = b"x" * 2**20


class PicklesItsOffsets(GoodSource):
    """The pickle of a small source is small, but it grows with the number of records."""

    def __init__(self, directory: str, name: str = "records"):
        super().__init__(directory, name)
        self._offsets = [4 * WIDTH * index for index in range(self._length)]


class PicklesRecordsRead(GoodSource):
    def __init__(self, directory: str):
        super().__init__(directory)
        self._pages: dict[int, bytes] = {}

    def record(self, index: int) -> Any:
        self._pages[index] = bytes(4096)
        return super().record(index)


# deterministic


class ReadsTheClock(GoodSource):
    def record(self, index: int) -> Any:
        return {**super().record(index), "id": np.int64(time.perf_counter_ns())}


class DrawsInConstructor(GoodSource):
    """The same for one instance and its copies, different for each new instance."""

    def __init__(self, directory: str):
        super().__init__(directory)
        self._shift = int.from_bytes(os.urandom(7), "little")

    def record(self, index: int) -> Any:
        return {**super().record(index), "id": np.int64(index + self._shift)}

    def __getitems__(self, indices: Any) -> list[Any]:
        return [self[index] for index in indices]

    def __getcolumns__(self, indices: Any) -> Any:
        records = self.__getitems__(indices)
        return {key: np.stack([record[key] for record in records]) for key in ("id", "row")}


class OrderedByHash(GoodSource):
    """The order of a set of strings, which differs between processes."""

    def __init__(self, directory: str):
        super().__init__(directory)
        self._order = [int(text) for text in {str(number) for number in range(COUNT)}]

    def record(self, index: int) -> Any:
        return super().record(self._order[index])

    def __getitems__(self, indices: Any) -> list[Any]:
        return [self[index] for index in indices]

    def __getcolumns__(self, indices: Any) -> Any:
        return super().__getcolumns__([self._order[index] for index in indices])


class NeverSeeksBack(GoodSource):
    """Reads sequentially only."""

    _last = -1

    def record(self, index: int) -> Any:
        self._last = max(self._last, index)
        return super().record(self._last)


class SharesAPosition(GoodSource):
    """Concurrent threads read each other's records."""

    _position = 0

    def record(self, index: int) -> Any:
        self._position = index
        time.sleep(0)
        return super().record(self._position)


class BelongsToItsThread(GoodSource):
    """Usable only in the thread that made it, like connections of some libraries."""

    def __init__(self, directory: str):
        super().__init__(directory)
        self._thread = threading.get_ident()

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _thread=threading.get_ident())

    def record(self, index: int) -> Any:
        if threading.get_ident() != self._thread:
            raise RuntimeError("made in another thread")
        return super().record(index)

    def __getitems__(self, indices: Any) -> list[Any]:
        return [self[index] for index in indices]


# batched


class BatchedSorts(GoodSource):
    def __getitems__(self, indices: Any) -> list[Any]:
        return super().__getitems__(sorted(indices))


class BatchedDropsRepeats(GoodSource):
    def __getitems__(self, indices: Any) -> list[Any]:
        return super().__getitems__(list(dict.fromkeys(map(int, indices))))


class BatchedNeedsOne(GoodSource):
    def __getitems__(self, indices: Any) -> list[Any]:
        max(indices)
        return super().__getitems__(indices)


class BatchedRefusesArrays(GoodSource):
    def __getitems__(self, indices: Any) -> list[Any]:
        if not indices:
            return []
        return super().__getitems__(indices)


class BatchedWrapsAround(GoodSource):
    def __getitems__(self, indices: Any) -> list[Any]:
        return super().__getitems__([int(index) % COUNT for index in indices])


class BatchedReturnsOtherTypes(GoodSource):
    def __getitems__(self, indices: Any) -> list[Any]:
        records = super().__getitems__(indices)
        return [{**record, "row": record["row"].astype(np.float64)} for record in records]


class BatchedReturnsATuple(GoodSource):
    def __getitems__(self, indices: Any) -> Any:
        return tuple(super().__getitems__(indices))


class ColumnsSort(GoodSource):
    def __getcolumns__(self, indices: Any) -> Any:
        return super().__getcolumns__(np.sort(indices))


class ColumnsReturnOtherTypes(GoodSource):
    def __getcolumns__(self, indices: Any) -> Any:
        columns = super().__getcolumns__(indices)
        return {**columns, "id": columns["id"].astype(np.int32)}


# memory


class ReusesOneBuffer(GoodSource):
    def __init__(self, directory: str):
        super().__init__(directory)
        self._buffer = np.zeros(WIDTH - 1, np.float32)

    def record(self, index: int) -> Any:
        record = super().record(index)
        self._buffer[:] = record["row"]
        return {**record, "row": self._buffer}


class ChangesReturnedElements(GoodSource):
    _given: Any = None

    def record(self, index: int) -> Any:
        if self._given is not None:
            self._given["row"] = None
        self._given = super().record(index)
        return self._given


class ReturnsItsOwnArrays(GoodSource):
    def __init__(self, directory: str):
        super().__init__(directory)
        self._records = [GoodSource.record(self, index) for index in range(COUNT)]

    def record(self, index: int) -> Any:
        return dict(self._records[index])


class ReturnsItsOwnDicts(ReturnsItsOwnArrays):
    def record(self, index: int) -> Any:
        record = self._records[index]
        record["row"].flags.writeable = False
        return record


# repr


class ShowsItsAddress(GoodSource):
    __repr__ = object.__repr__


class ShowsHowOftenItWasRead(GoodSource):
    _reads = 0

    def record(self, index: int) -> Any:
        self._reads += 1
        return super().record(index)

    def __repr__(self) -> str:
        return f"Source(reads={self._reads})"


class ShowsItsProcess(GoodSource):
    def __repr__(self) -> str:
        return f"Source(process={os.getpid()})"


class ShowsAHash(GoodSource):
    def __repr__(self) -> str:
        return f"Source(digest={hash('records')})"


# capabilities


class ClaimsBatched(GoodSource):
    __getitems__ = None


class ClaimsColumns(GoodSource):
    def __getcolumns__(self, indices: Any) -> Any:
        return None


class ClaimsToClose(GoodSource):
    __exit__ = None


class ClaimsPatterns(GoodSource):
    capabilities = ALL | {Capability.GLOBS}


class ReadsPatternsWrongly(GoodSource):
    capabilities = ALL | {Capability.GLOBS}


class DeniesBatched(GoodSource):
    capabilities = ALL - {Capability.BATCHED_READ}


class DeniesColumns(GoodSource):
    capabilities = ALL - {Capability.COLUMNS}


class DeniesToClose(GoodSource):
    capabilities = ALL - {Capability.CLOSABLE}


class DeniesPatterns(GoodSource):
    pass


# resources


class LeaksAHandlePerRead(GoodSource):
    def __init__(self, directory: str):
        super().__init__(directory)
        self._open: list[Any] = []

    def record(self, index: int) -> Any:
        self._open.append(open(self._path, "rb"))  # noqa: SIM115
        return super().record(index)

    def close(self) -> None:
        while self._open:
            self._open.pop().close()

    __del__ = close

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_open": []}


_LEAKED: list[Any] = []


class LeaksAHandlePerInstance(GoodSource):
    def __init__(self, directory: str):
        super().__init__(directory)
        _LEAKED.append(open(self._path, "rb"))  # noqa: SIM115

    def close(self) -> None:
        _LEAKED.pop().close() if _LEAKED else None


class LeaksAThread(GoodSource):
    def __init__(self, directory: str):
        super().__init__(directory)
        self._start()

    def _start(self) -> None:
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._end.wait, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._end.set()
        self._thread.join()

    def __getstate__(self) -> dict[str, Any]:
        return {k: v for k, v in self.__dict__.items() if k not in ("_end", "_thread")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._start()


class KeepsItsFileWhenClosed(GoodSource):
    _file: Any = None

    def record(self, index: int) -> Any:
        with _OPENING:
            if self._file is None:
                self._file = open(self._path, "rb")  # noqa: SIM115
        return super().record(index)

    def __del__(self) -> None:
        if self._file is not None:
            self._file.close()

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_file": None}


class ClosesOnlyOnce(GoodSource):
    _closed = False

    def close(self) -> None:
        if self._closed:
            raise ValueError("closed already")
        self._closed = True


# loader


class ReturnsNone(GoodSource):
    """None means a filtered element, which a stream omits."""

    capabilities = ALL - {Capability.COLUMNS}

    def record(self, index: int) -> Any:
        return None if index == 5 else super().record(index)

    def __getitems__(self, indices: Any) -> list[Any]:
        return [self[index] for index in indices]

    def __getcolumns__(self, indices: Any) -> Any:
        return None


class CachesInReadOrder(GoodSource):
    """After every record was read, batches come from a cache in read order."""

    def __init__(self, directory: str):
        super().__init__(directory)
        self._cache: dict[int, Any] = {}

    def __getitem__(self, index: Any) -> Any:
        found = super().__getitem__(index)
        self._cache.setdefault(int(index) % len(self), found)
        return found

    def __getitems__(self, indices: Any) -> list[Any]:
        if len(self._cache) < len(self):
            return super().__getitems__(indices)
        records = list(self._cache.values())
        return [records[index] for index in indices]


class ShowsWhichInstanceItIs(GoodSource):
    made = 0

    def __init__(self, directory: str):
        super().__init__(directory)
        ShowsWhichInstanceItIs.made += 1
        self._number = ShowsWhichInstanceItIs.made

    def __repr__(self) -> str:
        return f"Source(number={self._number})"


class SourceDependsOnItsProcess(GoodSource):
    """Works only in the process that made it."""

    def __init__(self, directory: str):
        super().__init__(directory)
        self._process = os.getpid()

    def __getitem__(self, index: Any) -> Any:
        if os.getpid() != self._process:
            raise RuntimeError("made in another process")
        return super().__getitem__(index)

    def __getitems__(self, indices: Any) -> list[Any]:
        return [self[index] for index in indices]


class BatchedReadsNeighbours(GoodSource):
    """Assumes consecutive indices, which those of a shard are not."""

    def __getitems__(self, indices: Any) -> list[Any]:
        wanted = super().__getitems__(indices)
        if not wanted:
            return []
        first = int(indices[0])
        return [GoodSource.record(self, (first + k) % COUNT) for k in range(len(wanted))]


# standard pickle, and files in pickles


class HoldsATextFile(GoodSource):
    """cloudpickle copies the contents of a text file; the standard library refuses it."""

    def __init__(self, directory: str):
        super().__init__(directory)
        self._file = open(os.devnull)  # noqa: SIM115

    def close(self) -> None:
        self._file.close()

    __del__ = close


class HoldsALambda(GoodSource):
    def __init__(self, directory: str):
        super().__init__(directory)
        self._decode = lambda record: record


class PicklesItsFile(GoodSource):
    """Small enough for the limit of a pickle's size."""

    def __init__(self, directory: str):
        super().__init__(directory)
        with open(self._path, "rb") as file:
            self._data = file.read()


class PicklesAMemoryMap(GoodSource):
    def __init__(self, directory: str):
        super().__init__(directory)
        self._rows: Any = np.memmap(self._path, np.float32, "r", shape=(COUNT, WIDTH))

    def close(self) -> None:
        self._rows = None


# threads


class _OpenFile(GoodSource):
    """Base of sources that keep their file open."""

    def __init__(self, directory: str):
        super().__init__(directory)
        self._file = open(self._path, "rb")  # noqa: SIM115

    def close(self) -> None:
        self._file.close()

    __del__ = close

    def __reduce__(self) -> Any:
        return type(self), (os.path.dirname(self._path),)


class SharesAFilePosition(_OpenFile):
    def record(self, index: int) -> Any:
        self._file.seek(index * 4 * WIDTH)
        return parse(self._file.read(4 * WIDTH))


class SharesAFilePositionInOneLine(_OpenFile):
    def record(self, index: int) -> Any:
        return parse(self._file.seek(4 * WIDTH * index) * b"" + self._file.read(4 * WIDTH))


class SharesAFilePositionBelow(_OpenFile):
    """The position is shared by a function of another module."""

    def record(self, index: int) -> Any:
        return parse(read_at(self._file, index * 4 * WIDTH, 4 * WIDTH))


class PublishesItsIndexTooEarly(GoodSource):
    """A second thread uses the index while the first thread fills it."""

    _offsets: Any = None

    def record(self, index: int) -> Any:
        if self._offsets is None:
            self._offsets = []
            for number in range(COUNT):
                self._offsets.append(number * 4 * WIDTH)
        with open(self._path, "rb") as file:
            file.seek(self._offsets[index])
            return parse(file.read(4 * WIDTH))


class CachesTheLastRecord(GoodSource):
    """The key and the value of the cache are written one after the other."""

    _key = -1
    _value: Any = None

    def record(self, index: int) -> Any:
        if self._key != index:
            self._key = index
            self._value = super().record(index)
        return {**self._value, "row": self._value["row"].copy()}


class LocksOnlyItsSeek(_OpenFile):
    def record(self, index: int) -> Any:
        with _OPENING:
            self._file.seek(index * 4 * WIDTH)
        with _OPENING:
            return parse(self._file.read(4 * WIDTH))
