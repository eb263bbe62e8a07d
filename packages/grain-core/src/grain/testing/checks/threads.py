"""Thread-safe: concurrent reads of one instance, preempted at every step and at random."""

from __future__ import annotations

import random
import sys
import threading
from collections.abc import Callable
from typing import Any

from grain.testing.compare import difference, snapshot
from grain.testing.preemption import Preemption
from grain.testing.subject import NotApplicable, Subject

_THREADS = 8
_ROUNDS = 4
_NEW_INSTANCES = 16
"""Steps of a first read, which may open files, that are preempted."""


def check_concurrent_reads(subject: Subject) -> None:
    """Check that one instance returns the same elements to concurrent threads.

    Guard shared state, such as a file position, with a lock, or keep it per thread.
    """
    if not subject.order:
        raise NotApplicable("the case has no elements")
    reader = _Reader(subject)
    reader.preempt_reads()
    reader.read_at_random()


class _Reader:
    """Reads of one subject in several threads, and the faults they found."""

    def __init__(self, subject: Subject):
        self._subject = subject
        self._order = subject.order
        self._expected = dict(zip(self._order, subject.elements, strict=True))
        self._faults: list[str] = []

    def preempt_reads(self) -> None:
        """Preempt the read of one element by the read of another, at one step after the other."""
        instance = self._subject.fresh()
        preemption = Preemption(type(instance).__module__.partition(".")[0])
        first, second = self._order[0], self._order[-1]
        preemption.prepare(self._read(self._subject.fresh(), first))
        # The first read may initialize the instance, so it has more steps.
        at_first = preemption.steps(self._read(instance, first))
        chosen = random.Random(0).sample(at_first, min(_NEW_INSTANCES, len(at_first)))
        for step in sorted(chosen):
            new = self._subject.fresh()
            preemption.run(self._read(new, first), step, self._read(new, second))
            self._expect_no_fault("was read while another thread read another element")
        for one, other in ((first, second), (second, first)):
            for step in preemption.steps(self._read(instance, one)):
                preemption.run(self._read(instance, one), step, self._read(instance, other))
                self._expect_no_fault("was read while another thread read another element")

    def read_at_random(self) -> None:
        """Read all elements in all threads at once, each in an order of its own."""
        instance = self._subject.fresh()
        start = threading.Barrier(_THREADS)

        def work(number: int) -> None:
            start.wait()
            for round_ in range(_ROUNDS):
                chosen = random.Random(number * _ROUNDS + round_)
                for index in chosen.sample(self._order, len(self._order)):
                    if self._faults:
                        return
                    self._read(instance, index)()

        threads = [
            threading.Thread(target=work, args=(number,), daemon=True) for number in range(_THREADS)
        ]
        interval = sys.getswitchinterval()
        sys.setswitchinterval(1e-6)  # switch threads far more often, so that races show
        try:
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        finally:
            sys.setswitchinterval(interval)
        self._expect_no_fault(f"was read in one of {_THREADS} threads")

    def _read(self, instance: Any, index: int) -> Callable[[], None]:
        """Return a function that reads an element and records a fault."""

        def read() -> None:
            try:
                [element] = self._subject.read_live(instance, [index])
                found = difference(self._expected[index], snapshot(element))
            except Exception as error:
                found = f"raised {error!r}"
            if found is not None:
                self._faults.append(f"element {index}: {found}")

        return read

    def _expect_no_fault(self, how: str) -> None:
        assert not self._faults, f"{self._faults[0]}; it {how}."
