"""State machines over random pipelines; the model is a list and a position.

`IteratorMachine` drives one iterator: elements, states, interrupts, deaths of workers, and continuing with
another executor. `HostsMachine` drives the hosts of one job, whose number changes on the way.
"""

from __future__ import annotations

import os
import signal
from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule
from tests.properties.strategies import iter_recipes, map_recipes

import grain

from .history import Checker, Stream, close, record
from .interrupts import Injector, children, no_hang
from .pipelines import INLINE, PIPELINES, THREADS

MODES = st.sampled_from(["inline", "inline", "threads", "threads", "1 worker", "2 workers"])


def over(dataset: grain.IterDataset, mode: str) -> grain.IterDataset:
    """Return a dataset over the workers of a mode."""
    if "worker" not in mode:
        return dataset
    return dataset.mp_prefetch(grain.MultiprocessingOptions(num_workers=int(mode[0])))


def _table() -> st.SearchStrategy[Any]:
    names = sorted(PIPELINES)
    return st.sampled_from(names).map(lambda name: PIPELINES[name])


def _recipes() -> st.SearchStrategy[Any]:
    # An iterator of theirs takes two elements for one, and loses the first if it is interrupted there.
    safe = iter_recipes().filter(lambda recipe: "own_pairs" not in repr(recipe))
    return safe.map(lambda recipe: recipe.build)


class IteratorMachine(RuleBasedStateMachine):
    """One pipeline, and one iterator at a time that follows its stream."""

    def __init__(self) -> None:
        super().__init__()
        self.stream = Stream([], [], None)
        self.checker: Checker | None = None
        self.closed = False
        self.workers: set[int] = set()
        self.wounded = False

    @initialize(build=_table() | _recipes(), mode=MODES)
    def start(self, build: Any, mode: str) -> None:
        self.build = build
        with no_hang():
            self.stream = record(build(INLINE))
        self._open(mode, 0)

    def _open(self, mode: str, position: int) -> None:
        self.mode = mode
        before = children()
        with no_hang():
            dataset = over(self.build(THREADS if mode == "threads" else INLINE), mode)
            self.checker = Checker(self.stream, iter(dataset))
            if position:
                self.checker.jump(position)
            if mode != "inline":
                self.checker.iterator.start_prefetch()
        self.workers = children() - before
        self.closed = self.wounded = False

    def teardown(self) -> None:
        if self.checker is not None:
            with no_hang():
                close(self.checker.iterator)

    def _after_death(self, error: RuntimeError) -> None:
        """A lost worker is an error that says so; the state is that of the last element."""
        if not self.wounded or "worker" not in str(error).lower():
            raise error
        assert self.checker is not None
        self.checker.check_state()
        position = self.checker.position
        close(self.checker.iterator)
        self._open("inline", position)

    @precondition(lambda self: not self.closed)
    @rule(count=st.integers(1, 5))
    def take(self, count: int) -> None:
        assert self.checker is not None
        try:
            with no_hang():
                for _ in range(count):
                    self.checker.advance()
                    self.checker.check_state()
        except RuntimeError as error:
            self._after_death(error)

    @precondition(lambda self: not self.closed)
    @rule(position=st.integers(0, 100))
    def set_state(self, position: int) -> None:
        assert self.checker is not None
        try:
            with no_hang():
                self.checker.jump(position % len(self.stream.states))
                self.checker.check_state()
        except RuntimeError as error:
            self._after_death(error)

    @rule()
    def close(self) -> None:
        assert self.checker is not None
        with no_hang():
            close(self.checker.iterator)
            self.checker.check_state()
        self.closed = True

    @rule(mode=MODES, elsewhere=st.none() | st.integers(0, 100))
    def reopen(self, mode: str, elsewhere: int | None) -> None:
        assert self.checker is not None
        with no_hang():
            self.checker.check_state()
            close(self.checker.iterator)
        position = self.checker.position
        if elsewhere is not None:
            position = elsewhere % len(self.stream.states)
        self._open(mode, position)

    @precondition(lambda self: self.workers and not self.closed)
    @rule(which=st.integers(0, 1))
    def kill_a_worker(self, which: int) -> None:
        alive = sorted(self.workers & children())
        if alive:
            os.kill(alive[which % len(alive)], signal.SIGKILL)
            self.wounded = True

    @precondition(lambda self: not self.closed)
    @rule(boundary=st.integers(1, 400))
    def interrupt(self, boundary: int) -> None:
        assert self.checker is not None
        injector = Injector([boundary])
        try:
            with no_hang():
                while injector.left_over:
                    element = injector(next, self.checker.iterator, self)
                    if element is self:
                        break
                    self.checker.accept(element)
        except KeyboardInterrupt:
            pass
        except RuntimeError as error:
            self._after_death(error)
            return
        with no_hang():
            self.checker.check_state()


def rows_of(batch: Any) -> list[int]:
    """Return the rows of a host's batch."""
    return np.asarray(batch).reshape(-1).tolist()


class HostsMachine(RuleBasedStateMachine):
    """One job over one map pipeline, with any number of hosts; its position is global."""

    @initialize(recipe=map_recipes(), hosts=st.integers(1, 3), rows=st.integers(1, 3))
    def start(self, recipe: Any, hosts: int, rows: int) -> None:
        self.make = lambda: recipe.build().map(lambda x: int(np.sum(x)))
        self.rows = [row for row in self.make() if row is not None]
        self.position = 0
        self._open(hosts, rows, None)

    def _open(self, hosts: int, rows: int, state: Any) -> None:
        self.step_rows = hosts * rows
        self.hosts = [
            grain.experimental.ElasticIterator(
                self.make(), self.step_rows, grain.sharding.ShardOptions(index, hosts)
            )
            for index in range(hosts)
        ]
        for host in self.hosts:
            if state is not None:
                host.set_state(state)

    @rule()
    def step(self) -> None:
        given = [next(host, None) for host in self.hosts]
        ends = {batch is None for batch in given}
        assert len(ends) == 1, "hosts take different numbers of steps"
        left = self.rows[self.position : self.position + self.step_rows]
        if ends == {True}:
            assert len(left) < self.step_rows
            return
        dealt = [row for group in zip(*map(rows_of, given), strict=True) for row in group]
        assert dealt == left
        self.position += self.step_rows
        self.agree()

    @rule()
    def agree(self) -> None:
        """All hosts have the state of the same global position."""
        states = [host.get_state() for host in self.hosts]
        assert all(state == states[0] for state in states)

    @rule(hosts=st.integers(1, 3), rows=st.integers(1, 3))
    def change_hosts(self, hosts: int, rows: int) -> None:
        state = self.hosts[0].get_state()
        for host in self.hosts:
            close(host)
        self._open(hosts, rows, state)
        self.agree()

    def teardown(self) -> None:
        for host in getattr(self, "hosts", ()):
            close(host)
