"""Iter sources with one fault each."""

from __future__ import annotations

import os
import time
from typing import Any

import numpy as np

from grain.plugins import Capability

from .good import COUNT, WIDTH, GoodIterator, GoodStream, parse


class _Stream(GoodStream):
    """Base of streams with a faulty iterator."""

    iterator: Any = GoodIterator

    def __iter__(self) -> Any:
        return self.iterator(self.path)


# stream


class IsNotAnIterDataset:
    capabilities = frozenset()

    def __init__(self, directory: str):
        self.stream = GoodStream(directory)

    def __iter__(self) -> Any:
        return iter(self.stream)


class LosesARecord(_Stream):
    class iterator(GoodIterator):
        def __next__(self) -> Any:
            if self.position == 3:
                self.position = 4
            return super().__next__()


class HasOnePosition(GoodStream):
    """All iterators of the dataset are the same object."""

    def __init__(self, directory: str):
        super().__init__(directory)
        self.only = GoodIterator(self.path)

    def __iter__(self) -> Any:
        if self.only.position >= COUNT:
            self.only.position = 0
        return self.only


class RestartsAfterItsEnd(_Stream):
    class iterator(GoodIterator):
        def __next__(self) -> Any:
            try:
                return super().__next__()
            except StopIteration:
                self.position = 0
                raise


class FailsAfterItsEnd(_Stream):
    class iterator(GoodIterator):
        ended = False

        def __next__(self) -> Any:
            if self.ended:
                raise RuntimeError("no more elements")
            try:
                return super().__next__()
            except StopIteration:
                self.ended = True
                raise

        def set_state(self, state: Any) -> None:
            super().set_state(state)
            self.ended = False


# state


class RestoresOneTooFar(_Stream):
    class iterator(GoodIterator):
        def set_state(self, state: Any) -> None:
            self.position = state["next"] + 1


class HasNoStateAtTheEnd(_Stream):
    class iterator(GoodIterator):
        def get_state(self) -> Any:
            return {"next": 0} if self.position >= COUNT else super().get_state()


class MutatesTheState(_Stream):
    class iterator(GoodIterator):
        def set_state(self, state: Any) -> None:
            self.position = state.pop("next")


class KeepsItsBuffer(_Stream):
    """Prefetches one element, and keeps it when another state is set."""

    class iterator(GoodIterator):
        def __init__(self, path: str):
            super().__init__(path)
            self.ahead: list[Any] = []

        def __next__(self) -> Any:
            if not self.ahead:
                self.ahead.append(super().__next__())
            if self.position < COUNT:
                self.ahead.append(super().__next__())
            return self.ahead.pop(0)

        def get_state(self) -> Any:
            return {"next": self.position - len(self.ahead)}


class RestoresOnlyOnce(_Stream):
    class iterator(GoodIterator):
        restored = False

        def set_state(self, state: Any) -> None:
            if not self.restored:
                super().set_state(state)
            self.restored = True


class HasANumpyState(_Stream):
    class iterator(GoodIterator):
        def get_state(self) -> Any:
            return {"next": np.int64(self.position)}


class HasATupleState(_Stream):
    class iterator(GoodIterator):
        def get_state(self) -> Any:
            return {"next": self.position, "files": ("records",)}


class HasNumbersAsKeys(_Stream):
    class iterator(GoodIterator):
        def get_state(self) -> Any:
            return {0: self.position}

        def set_state(self, state: Any) -> None:
            self.position = state[0] if 0 in state else state["0"]


class ReturnsItsOwnState(_Stream):
    class iterator(GoodIterator):
        def __init__(self, path: str):
            super().__init__(path)
            self.state = {"next": 0}

        def __next__(self) -> Any:
            element = super().__next__()
            self.state["next"] = self.position
            return element

        def get_state(self) -> Any:
            return self.state

        def set_state(self, state: Any) -> None:
            super().set_state(state)
            self.state = {"next": self.position}


class CountsStateCalls(_Stream):
    class iterator(GoodIterator):
        calls = 0

        def get_state(self) -> Any:
            self.calls += 1
            return {"next": self.position, "calls": self.calls}


class AdvancesInGetState(_Stream):
    """Every second `get_state` call drops an element."""

    class iterator(GoodIterator):
        calls = 0

        def get_state(self) -> Any:
            self.calls += 1
            if self.calls % 2 == 0 and self.position + 1 < COUNT:
                self.position += 1
            return super().get_state()


# picklable, deterministic


class StreamHoldsAHandle(GoodStream):
    def __init__(self, directory: str):
        super().__init__(directory)
        self._file = open(self.path, "rb")  # noqa: SIM115

    def __del__(self) -> None:
        self._file.close()


_PATHS: list[str] = []


class StreamLivesInAModuleVariable(GoodStream):
    def __init__(self, directory: str):
        super().__init__(directory)
        _PATHS[:] = [self.path]
        self.path = ""

    def __iter__(self) -> Any:
        return GoodIterator(_PATHS[0])


class StreamPicklesAllData(GoodStream):
    def __init__(self, directory: str):
        super().__init__(directory)
        self.data = bytes(range(256)) * 4096


class StreamPicklesItsOffsets(GoodStream):
    def __init__(self, directory: str, name: str = "records"):
        super().__init__(directory, name)
        self.offsets = list(range(0, os.path.getsize(self.path), 4 * WIDTH))


class StreamReadsTheClock(_Stream):
    class iterator(GoodIterator):
        def __next__(self) -> Any:
            return {**super().__next__(), "id": np.int64(time.perf_counter_ns())}


class StreamOrderedByHash(GoodStream):
    def __init__(self, directory: str):
        super().__init__(directory)
        self.order = [int(text) for text in {str(number) for number in range(COUNT)}]

    def __iter__(self) -> Any:
        iterator = _Ordered(self.path)
        iterator.order = self.order
        return iterator


class _Ordered(GoodIterator):
    order: list[int]

    def __next__(self) -> Any:
        if self.position >= COUNT:
            raise StopIteration
        with open(self.path, "rb") as file:
            file.seek(self.order[self.position] * 4 * WIDTH)
            self.position += 1
            return parse(file.read(4 * WIDTH))


class DependsOnItsProcess(GoodStream):
    """Works only in the process that made it."""

    def __init__(self, directory: str):
        super().__init__(directory)
        self.process = os.getpid()

    def __iter__(self) -> Any:
        if os.getpid() != self.process:
            raise RuntimeError("made in another process")
        return super().__iter__()


# memory


class StreamReusesOneBuffer(_Stream):
    class iterator(GoodIterator):
        def __init__(self, path: str):
            super().__init__(path)
            self.buffer = np.zeros(WIDTH - 1, np.float32)

        def __next__(self) -> Any:
            element = super().__next__()
            self.buffer[:] = element["row"]
            return {**element, "row": self.buffer}


class StreamReturnsItsOwnArrays(GoodStream):
    def __init__(self, directory: str):
        super().__init__(directory)
        self.records = list(GoodStream(directory))

    def __iter__(self) -> Any:
        iterator = _FromList(self.path)
        iterator.records = self.records
        return iterator


class _FromList(GoodIterator):
    records: list[Any]

    def __next__(self) -> Any:
        if self.position >= COUNT:
            raise StopIteration
        self.position += 1
        return self.records[self.position - 1]


# resources, capabilities


class _Open(GoodIterator):
    """Keeps a file open for its lifetime."""

    def __init__(self, path: str):
        super().__init__(path)
        self.file = open(path, "rb")  # noqa: SIM115

    def __del__(self) -> None:
        self.file.close()


class KeepsItsFileWhenIteratorCloses(_Stream):
    iterator = _Open


class IteratorClosesOnlyOnce(_Stream):
    class iterator(GoodIterator):
        done = False

        def close(self) -> None:
            if self.done:
                raise ValueError("closed already")
            self.done = True


_KEPT: list[Any] = []


class StreamLeaksAHandle(_Stream):
    class iterator(GoodIterator):
        def __init__(self, path: str):
            super().__init__(path)
            _KEPT.append(open(path, "rb"))  # noqa: SIM115

        def close(self) -> None:
            if _KEPT:
                _KEPT.pop().close()


class StreamClaimsPatterns(GoodStream):
    capabilities = frozenset({Capability.GLOBS})


class StreamDeniesPatterns(GoodStream):
    pass
