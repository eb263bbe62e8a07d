"""Sessions release the parts of a pipeline, report workers that die, and resume after interrupts."""

from __future__ import annotations

import contextlib
import itertools
import os
import select
import signal
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import grain

from ..helpers.pipelines import steps, with_workers
from ..helpers.processes import beyond, census, descendants, wait_until_gone
from .executors import recorded
from .pipelines import PIPELINES, Lines, OwnIterDataset, heavy, rows

X = grain.experimental


def test_many_streams_one_after_the_other_are_forgotten_by_the_workers(tmp_path: Any) -> None:
    class Leaf(grain.IterDataset):
        def __init__(self, number: int):
            super().__init__()
            self.ballast = bytes([number % 256]) * (1 << 20)

        def __iter__(self) -> Any:
            memory = _own_memory()
            return iter(grain.MapDataset.source([memory]).to_iter_dataset())

    def _own_memory() -> int:
        with open("/proc/self/smaps_rollup") as file:
            return next(int(line.split()[1]) * 1024 for line in file if "Anonymous:" in line)

    leaves = grain.MapDataset.range(120).map(Leaf)
    with iter(with_workers(X.InterleaveIterDataset(leaves, cycle_length=2), 1)) as iterator:
        memory = list(iterator)
    assert max(memory[60:]) - max(memory[:60]) < 20 << 20


@pytest.mark.usefixtures("leaves_nothing")
def test_setting_states_again_and_again_leaves_nothing_with_the_workers() -> None:
    iterator, workers, session = recorded(PIPELINES["turns of streams"]())
    with iterator, contextlib.closing(session):
        state = iterator.get_state()
        first = next(iterator)
        before = census()
        for _ in range(30):
            iterator.set_state(state)
            assert next(iterator) == first
        assert not beyond(before)
        assert workers.parts <= 10
        assert len(workers.tasks) <= 30


def a_worker() -> int:
    """Return the process id of a worker; its parent, the template, has children."""
    workers: list[int] = []
    while not workers:  # The template forks them while it starts.
        workers = [pid for pid in descendants(os.getpid()) if not descendants(pid)]
        templates = [pid for pid in descendants(os.getpid()) if descendants(pid)]
        workers = workers if templates else []
    return workers[-1]


def _waiting_for_ever(path: str, at: int) -> Callable[[int], int]:
    def function(x: int) -> int:
        if x == at:
            with open(path, "w") as file:
                file.write(str(os.getpid()))
            threading.Event().wait()
        return x

    return function


@pytest.mark.usefixtures("leaves_nothing")
@pytest.mark.parametrize("kind", ["chain", "functions", "stream"])
def test_a_killed_worker_is_reported_with_its_signal(kind: str, fifo: Any) -> None:
    function = _waiting_for_ever(fifo.path, at=8)
    dataset: grain.IterDataset = {
        "chain": lambda: rows(100).map(function),
        "functions": lambda: rows(100).filter(lambda x: x > 1).random_map(
            lambda x, rng: x, seed=1
        ).map(heavy).map(function),
        "stream": lambda: Lines(0, 100).map(function),
    }[kind]()  # fmt: skip
    with iter(with_workers(dataset, 2, max_worker_restarts=0)) as iterator:
        killer = threading.Thread(target=lambda: os.kill(int(fifo.read()), signal.SIGKILL))
        killer.start()
        seen = []
        with pytest.raises(RuntimeError, match=r"Worker \d of 2 .* killed by signal 9 \(SIGKILL"):
            seen += iterator
        killer.join()
        assert seen == list(range(100))[: len(seen)] or seen == list(range(2, 100))[: len(seen)]


@pytest.mark.usefixtures("leaves_nothing")
def test_an_idle_workers_death_is_reported_when_something_is_asked_again() -> None:
    with iter(with_workers(rows(1_000_000), 2, max_worker_restarts=0)) as iterator:
        next(iterator)
        victim = a_worker()
        os.kill(victim, signal.SIGKILL)
        wait_until_gone(victim)
        with pytest.raises(RuntimeError, match=rf"process {victim}\) was killed by signal 9"):
            list(itertools.islice(iterator, 900_000))


@pytest.mark.usefixtures("leaves_nothing")
@pytest.mark.parametrize("victim", [0, 1])
def test_a_death_behind_a_full_buffer_comes_after_what_was_computed(victim: int) -> None:
    iterator, workers, session = recorded(rows(1_000_000), buffer_size=4, max_worker_restarts=0)

    def submitted() -> int:
        *_, block = workers.last_task
        return int(block.start + block.size)

    with iterator, contextlib.closing(session):
        assert [next(iterator) for _ in range(3)] == [0, 1, 2]
        # The workers are idle once the buffer is full.
        while not workers.is_idle():
            select.select([], [], [], 0.001)
        computed = submitted()
        pid = workers.pids[victim]
        os.kill(pid, signal.SIGKILL)
        wait_until_gone(pid)
        seen = [0, 1, 2]
        with pytest.raises(RuntimeError, match=rf"Worker {victim} of 2 .*signal 9 \(SIGKILL"):
            seen.extend(iterator)
        assert seen == list(range(len(seen)))
        # All of it was delivered, and at most the blocks submitted since then.
        assert computed <= len(seen) <= submitted()
        assert iterator.get_state() == {"next_index": len(seen)}
        with pytest.raises(RuntimeError, match=f"process {pid}"):
            next(iterator)


@pytest.mark.usefixtures("leaves_nothing")
def test_a_worker_killed_while_it_starts_is_reported() -> None:
    options = grain.MultiprocessingOptions(2, max_worker_restarts=0)

    def wait_for_ever(index: int, count: int) -> None:
        threading.Event().wait()

    with iter(rows().mp_prefetch(options, worker_init_fn=wait_for_ever)) as iterator:
        iterator.start_prefetch()
        pid = a_worker()
        os.kill(pid, signal.SIGKILL)
        with pytest.raises(RuntimeError, match=rf"process {pid}\) was killed by signal 9"):
            list(iterator)
        assert iterator.get_state()["next_index"] < 40


def _killing_once(path: str, at: int) -> Callable[[int], int]:
    def function(x: int) -> int:
        if x == at and not os.path.exists(path):
            with open(path, "w"):
                pass
            os.kill(os.getpid(), signal.SIGKILL)
        return x

    return function


LOSING: dict[str, Callable[[Callable[[int], int]], grain.IterDataset]] = {
    "chain": lambda function: rows(60).map(function),
    "functions": lambda function: (
        rows(60)
        .filter(lambda x: x >= 0)
        .random_map(lambda x, rng: x, seed=1)
        .map(heavy)
        .map(function)
    ),
    "stream": lambda function: Lines(0, 60).map(function),
    "late": lambda function: X.InterleaveIterDataset([Lines(0, 60).map(function)], cycle_length=1),
}


@pytest.mark.usefixtures("leaves_nothing")
@pytest.mark.parametrize("kind", LOSING)
def test_a_killed_worker_is_replaced_and_its_tasks_are_computed_again(
    kind: str, tmp_path: Any
) -> None:
    alone = LOSING[kind](lambda x: x)
    dataset = LOSING[kind](_killing_once(str(tmp_path / "once"), at=40))
    with iter(with_workers(dataset, 2)) as iterator, iter(alone) as expected:
        with pytest.warns(RuntimeWarning, match=r"Worker \d.* was lost.*SIGKILL.*computed again"):
            found = steps(iterator)
        assert found == steps(expected)
        counts = iterator.session.counts
        assert counts.losses
        assert counts.pools == 1


@pytest.mark.usefixtures("leaves_nothing")
@pytest.mark.filterwarnings("ignore:Worker")
@pytest.mark.parametrize(
    ("kind", "where"),
    [
        ("chain", "index 40, made of element 40 of .* by .*MapIterDataset"),
        ("stream", "the element of MapIterDataset.*40"),
    ],
)
def test_a_record_that_kills_its_workers_is_named(kind: str, where: str, tmp_path: Any) -> None:
    def killing(x: int) -> int:
        if x == 40:
            os.kill(os.getpid(), signal.SIGKILL)
        return x

    with iter(with_workers(LOSING[kind](killing), 2)) as iterator:
        assert list(itertools.islice(iterator, 40)) == list(range(40))
        with pytest.raises(RuntimeError, match=rf"2 workers were lost while .*{where}.*SIGKILL"):
            next(iterator)
        state = iterator.get_state()
    with iter(LOSING[kind](lambda x: x)) as alone:
        alone.set_state(state)
        assert next(alone) == 40


def _kills_at_41(x: int) -> int:
    if x == 41:
        os.kill(os.getpid(), signal.SIGKILL)
    return x


_MAPPED = grain.MapDataset.range(120).map(_kills_at_41)


@pytest.mark.usefixtures("leaves_nothing")
@pytest.mark.filterwarnings("ignore:Worker")
@pytest.mark.parametrize(
    ("dataset", "where"),
    [
        (_MAPPED.to_iter_dataset(), "index 41, made of element 41 of Range.* by Map.*_kills_at_41"),
        (
            _MAPPED.shuffle(seed=1).to_iter_dataset().filter(bool),
            r"index \d+, made of element 41 of Range.* by Filter.*Shuffle.*_kills_at_41",
        ),
        (_MAPPED.batch(3).to_iter_dataset(), "index 13, made of elements 39, 40, 41 of Range"),
        (_MAPPED.to_iter_dataset().batch(3), "indices 39 to 41, made of elements 39, 40, 41 of"),
        (
            _MAPPED.zip(_MAPPED).batch(60).repeat(2).to_iter_dataset(),
            r"index 0, made of elements 0, 1, .* of Range.* and others by .*Zip.*_kills_at_41",
        ),
    ],
)
def test_the_source_element_that_kills_workers_is_named(dataset: Any, where: str) -> None:
    with (
        iter(with_workers(dataset, 2)) as iterator,
        pytest.raises(RuntimeError, match=rf"2 workers were lost while they computed {where}"),
    ):
        list(iterator)


@pytest.mark.usefixtures("leaves_nothing")
def test_a_worker_that_hangs_is_ended(fifo: Any) -> None:
    iterator = iter(with_workers(rows(100).map(_waiting_for_ever(fifo.path, at=2)), 2))
    iterator.start_prefetch()
    assert next(iterator) == 0
    pid = int(fifo.read())
    assert pid in descendants(os.getpid())
    iterator.close()


@pytest.mark.usefixtures("leaves_nothing")
def test_a_worker_that_hangs_at_its_exit_is_ended(fifo: Any) -> None:
    path = fifo.path

    def init(index: int, count: int) -> None:
        import atexit
        import threading

        def hang() -> None:
            with open(path, "w") as file:
                file.write("hanging")
            threading.Event().wait()

        atexit.register(hang)

    heard: list[str] = []
    listener = threading.Thread(target=lambda: heard.append(fifo.read()))
    listener.start()
    iterator = iter(rows().mp_prefetch(grain.MultiprocessingOptions(1), worker_init_fn=init))
    assert next(iterator) == 0
    iterator.close()
    listener.join()
    assert heard == ["hanging"]


@pytest.mark.parametrize("kind", ["chain", "functions", "stream"])
def test_after_an_interrupt_the_stream_goes_on_where_it_was(kind: str, tmp_path: Any) -> None:
    there, go_on = str(tmp_path / "there"), str(tmp_path / "go_on")
    once = tmp_path / "once"
    os.mkfifo(there)
    os.mkfifo(go_on)

    def wait_for_word(x: int) -> int:
        # What was on its way when the interrupt came may be computed once more.
        if x == 10 and not once.exists():
            once.touch()
            with open(there, "w"):
                pass
            with open(go_on):
                pass
        return x

    without_waiting: grain.IterDataset = {
        "chain": rows(20),
        "functions": OwnIterDataset(rows(10)).map(heavy),
        "stream": Lines(0, 20),
    }[kind]
    dataset = without_waiting.map(wait_for_word)
    expected = np.cumsum(np.arange(10)).tolist() if kind == "functions" else list(range(20))
    found: list[int] = []

    def take_all(iterator: Any) -> None:
        for element in iterator:
            found.append(element)

    def interrupt() -> None:
        with open(there):
            os.kill(os.getpid(), signal.SIGUSR1)

    def let_go_on() -> None:
        with open(go_on, "w"):
            pass

    def raise_in_the_library(number: int, frame: Any) -> None:
        if frame.f_code is take_all.__code__:
            # Between two steps what was just given could be lost here: again, a moment later.
            threading.Thread(target=os.kill, args=(os.getpid(), number)).start()
        else:
            raise KeyboardInterrupt

    threads = [threading.Thread(target=interrupt), threading.Thread(target=let_go_on)]
    before = signal.signal(signal.SIGUSR1, raise_in_the_library)
    try:
        with iter(with_workers(dataset, 1)) as iterator:
            threads[0].start()
            with pytest.raises(KeyboardInterrupt):
                take_all(iterator)
            given = len(found)
            assert found == expected[:given]
            # First, as a state may be found by reading from the worker again.
            threads[1].start()
            state = iterator.get_state()
            take_all(iterator)
            assert found == expected
        # The state after the interrupt is that of the elements delivered before it.
        with iter(without_waiting) as alone:
            alone.set_state(state)
            assert list(alone) == expected[given:]
    finally:
        signal.signal(signal.SIGUSR1, before)
        for thread in threads:
            thread.join()
