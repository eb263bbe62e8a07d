"""Scripts that end, fail or are killed while workers run, under `python -W error`."""

from __future__ import annotations

import os
import signal
from typing import Any

import pytest

import grain

from ..helpers.processes import finish, segments, wait_until_gone

X = grain.experimental


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
    assert len(pids) == 5  # Two workers of two pools, and their template.
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
    assert len(pids) == 3  # A template and two workers.
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
    assert len(pids) == 3  # A template and two workers.
    assert fifo.read() == "there"
    # Memory without a name cannot outlive the processes that map it.
    shared = {name for pid in [process.pid, *pids] for name in segments(pid)}
    assert shared == {"/memfd:grain (deleted)"}
    os.kill(process.pid, signal.SIGKILL)
    assert finish(process)[::2] == (-signal.SIGKILL, "")
    for pid in pids:
        wait_until_gone(pid)
