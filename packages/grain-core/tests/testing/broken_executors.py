"""Executors that break one sentence of the contract each, over the thread executor."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Collection
from typing import Any

import numpy as np

from grain.execution import ThreadExecutor


class Wrapped:
    """A pool of threads whose members a subclass replaces."""

    def __init__(self, job: Any, **options: Any):
        self.pool = ThreadExecutor(2).open(job)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.pool, name)


class Opens:
    """An executor that opens pools of a class."""

    capacity = 2

    def __init__(self, kind: Callable[..., Any]):
        self._kind = kind

    def open(self, job: Any, **options: Any) -> Any:
        return self._kind(job, **options)


class Reordering(Wrapped):
    """Gives results in the order of arrival: those of two tickets without affinity are exchanged."""

    of_streams = False

    def __init__(self, job: Any, **options: Any):
        super().__init__(job)
        self._twins: dict[int, int] = {}
        self._last: int | None = None

    def submit(self, task: Any, *, affinity: int | None = None) -> int:
        ticket: int = self.pool.submit(task, affinity=affinity)
        if (affinity is not None) is not self.of_streams:
            return ticket
        if self._last is None:
            self._last = ticket
        else:
            self._twins[ticket], self._twins[self._last] = self._last, ticket
            self._last = None
        return ticket

    def wait(self, tickets: Collection[int], timeout: float | None = None) -> set[int]:
        names = {self._twins.get(ticket, ticket): ticket for ticket in tickets}
        return {names[ticket] for ticket in self.pool.wait(names, timeout)}

    def result(self, ticket: int) -> Any:
        return self.pool.result(self._twins.get(ticket, ticket))


class ReorderingStreams(Reordering):
    """Gives results in the order of arrival: those of two tickets with affinity are exchanged."""

    of_streams = True


class Delaying(Wrapped):
    """Computes a task before `submit` returns."""

    def submit(self, task: Any, *, affinity: int | None = None) -> int:
        ticket: int = self.pool.submit(task, affinity=affinity)
        self.pool.wait([ticket])
        return ticket


class Duplicating(Wrapped):
    """Delivers results as often as they are taken."""

    def __init__(self, job: Any, **options: Any):
        super().__init__(job)
        self._kept: dict[int, Any] = {}

    def result(self, ticket: int) -> Any:
        if ticket not in self._kept:
            self._kept[ticket] = self.pool.result(ticket)
        return self._kept[ticket]


class ComputingTwice(Wrapped):
    """Computes tasks with an affinity twice."""

    def submit(self, task: Any, *, affinity: int | None = None) -> int:
        if affinity is not None:
            self.pool.submit(task, affinity=affinity)
        return self.pool.submit(task, affinity=affinity)


class Losing(Wrapped):
    """Loses every seventeenth task and never says so."""

    def __init__(self, job: Any, **options: Any):
        super().__init__(job)
        self._count = itertools.count(1)

    def submit(self, task: Any, *, affinity: int | None = None) -> int:
        ticket: int = self.pool.submit(task, affinity=affinity)
        if next(self._count) % 17 == 0:
            self.pool.discard(ticket)
            return -ticket
        return ticket

    def wait(self, tickets: Collection[int], timeout: float | None = None) -> set[int]:
        there = [ticket for ticket in tickets if ticket > 0]
        if not there:
            threading.Event().wait(timeout)
        return self.pool.wait(there, timeout)


class Shrinking(Wrapped):
    """Shrinks to one worker after fifty tasks, and forgets the tasks of the other."""

    def __init__(self, job: Any, **options: Any):
        super().__init__(job)
        self._count = 0
        self._lost: set[int] = set()

    @property
    def capacity(self) -> int:
        return 2 if self._count < 50 else 1

    def submit(self, task: Any, *, affinity: int | None = None) -> int:
        self._count += 1
        ticket: int = self.pool.submit(task, affinity=affinity)
        if 50 <= self._count < 54:
            self._lost.add(ticket)
            self.pool.discard(ticket)
        return ticket

    def wait(self, tickets: Collection[int], timeout: float | None = None) -> set[int]:
        there = [ticket for ticket in tickets if ticket not in self._lost]
        if not there:
            threading.Event().wait(timeout)
        return self.pool.wait(there, timeout)


class DyingInDefine(Wrapped):
    """Stops computing when a definition cannot be loaded."""

    def define(self, number: int, part: bytes, *, affinity: int | None = None) -> None:
        if part == b"not a pickle":
            self.pool.close()
        else:
            self.pool.define(number, part, affinity=affinity)


class ReadOnly(Wrapped):
    """Returns arrays that cannot be changed."""

    def result(self, ticket: int) -> Any:
        found = self.pool.result(ticket)
        if isinstance(found[0], np.ndarray):
            found[0].flags.writeable = False
        return found


class ReusingMemory(Wrapped):
    """Returns arrays in one buffer."""

    def __init__(self, job: Any, **options: Any):
        super().__init__(job)
        self._buffer: Any = None

    def result(self, ticket: int) -> Any:
        value, report = self.pool.result(ticket)
        if not isinstance(value, np.ndarray):
            return value, report
        if self._buffer is None:
            self._buffer = value
        self._buffer[...] = value
        return self._buffer, report


class RaisingInClose(Wrapped):
    """Raises when it is closed again."""

    def close(self) -> None:
        if self.pool.closed:
            raise RuntimeError("closed already")
        self.pool.close()


class AlwaysRaisingInClose(Wrapped):
    """Raises whenever it is closed."""

    def close(self) -> None:
        self.pool.close()
        raise RuntimeError("cannot be closed")


class LyingAboutCapacity(Wrapped):
    """Has two threads and says five."""

    capacity = 5


class Leaking(Wrapped):
    """Keeps its threads when it is closed."""

    kept: list[Any] = []

    def __init__(self, job: Any, **options: Any):
        super().__init__(job)
        self._event = threading.Event()
        self._thread = threading.Thread(target=self._event.wait, daemon=True)
        self._thread.start()
        self.kept.append(self._event)

    @classmethod
    def release(cls) -> None:
        """End the threads of all pools."""
        while cls.kept:
            cls.kept.pop().set()


class IgnoringAffinity(Wrapped):
    """Gives tasks with an affinity to any worker."""

    def submit(self, task: Any, *, affinity: int | None = None) -> int:
        return self.pool.submit(task)


class Forgetful(Wrapped):
    """Swallows the errors of tasks."""

    def result(self, ticket: int) -> Any:
        try:
            return self.pool.result(ticket)
        except LookupError:
            return None, None


class SharingArguments(Wrapped):
    """Computes tasks with the arguments that were submitted, not with copies."""

    def __init__(self, job: Any, **options: Any):
        self._job = job
        super().__init__(self)

    def start(self, index: int, count: int) -> Any:
        compute = self._job.start(index, count)
        return lambda box: compute(box.task)

    def submit(self, task: Any, *, affinity: int | None = None) -> int:
        return self.pool.submit(_Box(task), affinity=affinity)

    def define(self, number: int, part: bytes, *, affinity: int | None = None) -> None:
        self.pool.define(number, part, affinity=affinity)


class _Box:
    """A task that is not copied."""

    def __init__(self, task: Any):
        self.task = task

    def __deepcopy__(self, memo: Any) -> _Box:
        return self


class WithoutCosts(Wrapped):
    """Has no cost model."""

    costs = None


class Incomplete:
    """Lacks most members."""

    capacity = 1
    closed = False

    def __init__(self, job: Any, **options: Any):
        pass

    def close(self) -> None:
        pass


class SinglePool:
    """An executor whose pools are one pool."""

    capacity = 2

    def __init__(self) -> None:
        self._pool: Any = None

    def open(self, job: Any, **options: Any) -> Any:
        if self._pool is None:
            self._pool = ThreadExecutor(2).open(job)
        return self._pool
