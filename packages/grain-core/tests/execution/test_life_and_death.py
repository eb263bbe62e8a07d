"""Iterators over workers leave nothing behind, however they or the workers end; with real signals."""

from __future__ import annotations

import contextlib
import gc
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
from ..helpers.processes import beyond, census, descendants, finish, segments, wait_until_gone
from .executors import recorded
from .pipelines import FAILING, PIPELINES, Lines, OwnIterDataset, heavy, rows

X = grain.experimental

# One of every kind of iterator that talks to workers.
KINDS = [
    "shuffled map batches",
    "filter then batch",
    "one element missing",
    "heavy above packing",
    "single stream",
    "turns of streams",
    "turns of map datasets",
    "mixture",
]


def images(count: int = 200) -> grain.IterDataset:
    """Batches that are large enough to travel in shared memory."""
    return (
        grain.MapDataset.range(count)
        .map(lambda i: np.full((64, 64, 3), i))
        .batch(4)
        .to_iter_dataset()
    )


@pytest.mark.usefixtures("leaves_nothing")
@pytest.mark.parametrize("name", KINDS)
def test_close_releases_everything_and_keeps_the_state(name: str) -> None:
    with iter(PIPELINES[name]()) as alone:
        expected = steps(alone, most=3)
    iterator = iter(with_workers(PIPELINES[name](), 2))
    assert steps(iterator, most=3) == expected
    iterator.close()
    assert iterator.get_state() == expected[-1][-1]
    with pytest.raises(ValueError, match="closed iterator"):
        next(iterator)
    iterator.close()


@pytest.mark.parametrize("name", KINDS)
def test_a_closed_iterator_holds_no_resources_while_referenced(name: str) -> None:
    before = census()
    iterator = iter(with_workers(PIPELINES[name](), 2))
    next(iterator)
    iterator.close()
    assert not beyond(before)
    assert iterator.get_state() is not None


@pytest.mark.usefixtures("leaves_nothing")
def test_a_with_block_leaves_nothing_though_arrays_are_kept() -> None:
    with iter(with_workers(images(), 2)) as iterator:
        kept = [next(iterator) for _ in range(3)]
    assert [int(batch[0, 0, 0, 0]) for batch in kept] == [0, 4, 8]
    kept[0] += 1
    del kept


@pytest.mark.usefixtures("leaves_nothing")
@pytest.mark.parametrize("name", [*KINDS, "an iter map below a batch", "a heavy map", "a stream"])
def test_a_dropped_iterator_leaves_nothing_without_help_of_the_garbage_collector(name: str) -> None:
    build = {**PIPELINES, **FAILING}[name]
    gc.collect()
    gc.disable()
    try:
        iterator = iter(with_workers(build(), 2))
        assert steps(iterator, most=15)
        assert descendants(os.getpid())
        del iterator
        assert not descendants(os.getpid())
    finally:
        gc.enable()


def _fail_at_six(x: Any) -> Any:
    if np.min(x) == 6:
        raise LookupError("six")
    return x


# An error in what the consumer's process does with what workers computed.
ABOVE: dict[str, Callable[[grain.IterDataset], grain.IterDataset]] = {
    "map": lambda ds: ds.map(_fail_at_six).map(abs),
    "filter": lambda ds: ds.filter(lambda x: _fail_at_six(x) >= 0).batch(2),
    "batch": lambda ds: ds.batch(2, batch_fn=_fail_at_six),
    "draws": lambda ds: ds.random_map(lambda x, rng: _fail_at_six(x), seed=1),
    "shuffle": lambda ds: ds.window_shuffle(3, seed=1).map(_fail_at_six),
    "own iterator": lambda ds: OwnIterDataset(ds).map(_fail_at_six),
    "packing": lambda ds: X.ConcatThenSplitIterDataset(
        ds.map(_fail_at_six).map(lambda x: {"tokens": np.arange(x + 1)}),
        length_struct={"tokens": 8},
    ),
    "turns": lambda ds: X.InterleaveIterDataset([ds.map(_fail_at_six), rows()], cycle_length=2),
}


@pytest.mark.parametrize("name", ABOVE)
def test_who_keeps_an_error_of_what_is_above_the_workers_does_not_keep_them(name: str) -> None:
    before = set(descendants(os.getpid()))
    gc.disable()
    try:
        iterator = iter(ABOVE[name](with_workers(rows(20), 1)))
        with pytest.raises(LookupError) as kept:
            list(iterator)
        assert set(descendants(os.getpid())) > before
        if name == "own iterator":
            # The traceback shows a frame of the user's, and that one holds it.
            del kept
        del iterator
        assert set(descendants(os.getpid())) <= before
    finally:
        gc.enable()


@pytest.mark.parametrize("ending", ["close", "with", "return"])
def test_an_error_above_the_workers_does_not_keep_them(ending: str) -> None:
    before = set(descendants(os.getpid()))
    dataset = ABOVE["map"](with_workers(rows(20), 1))

    def train() -> None:
        for element in dataset:
            assert element != 6

    gc.disable()
    try:
        if ending == "return":
            with pytest.raises(LookupError):
                train()
        elif ending == "with":
            with pytest.raises(LookupError), iter(dataset) as iterator:
                list(iterator)
        else:
            iterator = iter(dataset)
            with pytest.raises(LookupError):
                list(iterator)
            iterator.close()
        assert set(descendants(os.getpid())) <= before
    finally:
        gc.enable()


@pytest.mark.usefixtures("leaves_nothing")
def test_an_iterator_that_never_gave_an_element_leaves_nothing() -> None:
    iter(with_workers(rows(), 2)).close()
    iterator = iter(with_workers(rows(), 2))
    del iterator
    iterator = iter(with_workers(rows(), 2))
    iterator.start_prefetch()
    assert descendants(os.getpid())
    iterator.close()


@pytest.mark.usefixtures("leaves_nothing")
def test_an_exception_in_the_consumers_loop_leaves_nothing() -> None:
    def train() -> None:
        for number, batch in enumerate(with_workers(images(), 2)):
            assert batch.shape == (4, 64, 64, 3)
            if number == 2:
                raise FloatingPointError("loss is nan")

    with pytest.raises(FloatingPointError):
        train()
    gc.collect()


@pytest.mark.usefixtures("leaves_nothing")
def test_a_loader_leaves_nothing() -> None:
    loader = grain.DataLoader(
        data_source=grain.RangeDataSource(0, 50, 1),
        sampler=grain.IndexSampler(num_records=50, num_epochs=1),
        worker_count=2,
    )
    with iter(loader) as iterator:
        assert next(iterator) == 0
    iterator = iter(loader)
    assert next(iterator) == 0
    del iterator
    assert len(list(loader)) == 50


def test_a_hundred_iterators_made_and_dropped_leave_nothing() -> None:
    def use(number: int) -> None:
        iterator = iter(with_workers(images(), 1))
        if number % 10:
            iterator.start_prefetch()
        else:
            batches = [next(iterator) for _ in range(3)]
            assert int(batches[2][0, 0, 0, 0]) == 8

    use(0)
    gc.collect()
    before, memory = census(), _resident()
    for number in range(100):
        use(number)
    gc.collect()
    assert not beyond(before)
    assert _resident() - memory < 20 << 20


def _resident() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


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


# Workers that die or hang.


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
    with iter(with_workers(dataset, 2)) as iterator:
        killer = threading.Thread(target=lambda: os.kill(int(fifo.read()), signal.SIGKILL))
        killer.start()
        seen = []
        with pytest.raises(RuntimeError, match=r"Worker \d of 2 .* killed by signal 9 \(SIGKILL"):
            seen += iterator
        killer.join()
        assert seen == list(range(100))[: len(seen)] or seen == list(range(2, 100))[: len(seen)]


@pytest.mark.usefixtures("leaves_nothing")
def test_an_idle_workers_death_is_reported_when_something_is_asked_again() -> None:
    with iter(with_workers(rows(1_000_000), 2)) as iterator:
        next(iterator)
        victim = descendants(os.getpid())[0]
        os.kill(victim, signal.SIGKILL)
        wait_until_gone(victim)
        with pytest.raises(RuntimeError, match=rf"process {victim}\) was killed by signal 9"):
            list(itertools.islice(iterator, 900_000))


@pytest.mark.usefixtures("leaves_nothing")
@pytest.mark.parametrize("victim", [0, 1])
def test_a_death_behind_a_full_buffer_comes_after_what_was_computed(victim: int) -> None:
    iterator, workers, session = recorded(rows(1_000_000), buffer_size=4)

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
    with iter(with_workers(rows(), 2)) as iterator:
        iterator.start_prefetch()
        pid = descendants(os.getpid())[-1]
        os.kill(pid, signal.SIGKILL)
        with pytest.raises(RuntimeError, match=rf"process {pid}\) was killed by signal 9"):
            list(iterator)
        assert iterator.get_state()["next_index"] < 40


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
            state = iterator.get_state()
            threads[1].start()
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


# Scripts, under `python -W error`.


def test_a_script_that_ends_with_iterators_alive_says_nothing(script: Any) -> None:
    process = script("""
        ds = MapDataset.range(1000).map(lambda i: np.full((64, 64), i)).batch(4).to_iter_dataset()
        iterators = [iter(ds.mp_prefetch(MultiprocessingOptions(2))) for _ in range(2)]
        kept = [next(it) for it in iterators]
        iterators[1].start_prefetch()
        print(*children())
    """)
    code, out, err = finish(process)
    assert (code, err) == (0, "")
    pids = [int(word) for word in out.split()]
    assert len(pids) == 4
    for pid in pids:
        wait_until_gone(pid)


def test_an_exception_in_a_scripts_loop_shows_itself_alone(script: Any) -> None:
    process = script("""
        ds = MapDataset.range(100_000).to_iter_dataset().filter(lambda x: x % 2).batch(4)
        for number, batch in enumerate(ds.mp_prefetch(MultiprocessingOptions(2))):
            if number == 3:
                print(*children())
                raise ValueError("mine")
    """)
    code, out, err = finish(process)
    assert code == 1
    assert err.count("Traceback") == 1
    assert err.strip().endswith("ValueError: mine")
    for pid in map(int, out.split()):
        wait_until_gone(pid)


def test_sys_exit_with_an_iterator_in_a_thread_ends_clean(script: Any) -> None:
    process = script("""
        ready = threading.Event()
        def consume():
            for element in MapDataset.range(10**9).to_iter_dataset().mp_prefetch(MultiprocessingOptions(1)):
                ready.set()
        threading.Thread(target=consume, daemon=True).start()
        ready.wait()
        print(*children())
        sys.exit(5)
    """)
    code, out, err = finish(process)
    assert (code, err) == (5, "")
    for pid in map(int, out.split()):
        wait_until_gone(pid)


_REPORTING_LOOP = """
    path = sys.argv[1]
    def slow(x):
        if x == 20:
            with open(path, "w") as file:
                file.write("there")
            threading.Event().wait()
        return x
    ds = MapDataset.range(1000).map(slow).to_iter_dataset().batch(2)
    iterator = iter(ds.mp_prefetch(MultiprocessingOptions(2)))
    next(iterator)
    print(*children(), flush=True)
"""


@pytest.mark.parametrize("caught", [True, False])
def test_ctrl_c_ends_everything_and_only_the_consumer_speaks(
    script: Any, fifo: Any, caught: bool
) -> None:
    process = script(
        _REPORTING_LOOP
        + """
    try:
        for batch in iterator:
            pass
    except KeyboardInterrupt:
        if sys.argv[2] == "False":
            raise
        print("interrupted")
    """,
        fifo.path,
        caught,
    )
    pids = [int(word) for word in process.stdout.readline().split()]
    assert len(pids) == 2
    assert fifo.read() == "there"
    os.killpg(process.pid, signal.SIGINT)
    code, out, err = finish(process)
    if caught:
        assert (code, out, err) == (0, "interrupted\n", "")
    else:
        assert code == -signal.SIGINT
        assert err.count("Traceback") == 1
        assert err.strip().endswith("KeyboardInterrupt")
    for pid in pids:
        wait_until_gone(pid)


def test_a_parent_killed_by_sigkill_takes_its_workers_and_segments_with_it(
    script: Any, fifo: Any
) -> None:
    process = script(_REPORTING_LOOP + "    list(iterator)\n", fifo.path)
    pids = [int(word) for word in process.stdout.readline().split()]
    assert len(pids) == 2
    assert fifo.read() == "there"
    # Memory without a name cannot outlive the processes that map it.
    shared = {name for pid in [process.pid, *pids] for name in segments(pid)}
    assert shared == {"/memfd:grain (deleted)"}
    os.kill(process.pid, signal.SIGKILL)
    assert finish(process)[::2] == (-signal.SIGKILL, "")
    for pid in pids:
        wait_until_gone(pid)
