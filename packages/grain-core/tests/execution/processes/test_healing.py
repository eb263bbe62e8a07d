"""Pools that replace lost workers: nothing is lost silently, nothing is computed by a worker that is gone."""

import os
import pickle
import random
import signal
import threading
import time
import warnings

import numpy as np
import pytest

from grain._policy import use_policy
from grain.execution.processes.error_report import TaskLost, WorkerDied
from grain.execution.processes.restart_budget import RestartBudget

pytestmark = pytest.mark.filterwarnings("ignore:Worker .* was lost and is replaced")

FATAL = {
    "SIGKILL": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "SIGSEGV": lambda: os.kill(os.getpid(), signal.SIGSEGV),
    "exit code 7": lambda: os._exit(7),
}


@pytest.mark.parametrize("how", FATAL)
def test_a_task_is_lost_with_its_worker_and_the_pool_continues(make_pool, tmp_path, how):
    flag, die = str(tmp_path / "died"), FATAL[how]

    def handle(task):
        if task == "die" and not os.path.exists(flag):
            open(flag, "w").close()
            die()
        return task

    pool = make_pool(handle, num_workers=2, max_restarts=3)
    tickets = {x: pool.submit(x) for x in [1, 2, "die", 4, 5]}
    with pytest.raises(TaskLost, match=how) as caught:
        pool.result(tickets.pop("die"))
    assert caught.value.started
    for x, ticket in tickets.items():
        assert pool.result(ticket) == x
    assert pool.result(pool.submit("die")) == "die"
    assert pool.restarts == 1
    assert pool.capacity == 2


def test_every_task_is_answered_or_lost_wherever_workers_are_killed(make_pool):
    """Kills strike at random points: while a worker takes, computes or sends a task, starts or sleeps."""
    pool = make_pool(
        lambda x: (x, np.full(x % 5 * 30_000, x)), num_workers=3, max_restarts=10**6, grace=5.0
    )
    rng = random.Random(1)
    kills = threading.Event()

    def kill_now_and_then():
        while not kills.wait(rng.random() * 0.05):
            worker = rng.choice(pool.pids)
            try:
                os.kill(worker, signal.SIGKILL)
            except ProcessLookupError:
                continue

    killer = threading.Thread(target=kill_now_and_then)
    outstanding, answered, lost = {}, set(), 0
    waiting = list(range(1200))
    killer.start()
    try:
        while waiting or outstanding:
            while waiting and len(outstanding) < 12:
                x = waiting.pop()
                outstanding[pool.submit(x)] = x
            for ticket in pool.wait(list(outstanding)):
                x = outstanding.pop(ticket)
                try:
                    number, array = pool.result(ticket)
                except TaskLost:
                    waiting.append(x)
                    lost += 1
                else:
                    assert number == x
                    assert (array == x).all()
                    assert x not in answered
                    answered.add(x)
            if pool.restarts > 25:
                kills.set()
    finally:
        kills.set()
        killer.join()
    assert answered == set(range(1200))
    assert pool.restarts > 0
    assert lost <= pool.restarts * 3


def test_a_task_taken_but_not_recorded_is_found(make_pool, fifo):
    """A worker may be killed between receiving a task and recording that it has it."""
    path = fifo.path

    class Job:
        def start(self, worker_index, worker_count):
            from grain.execution.processes import framing

            parse = framing.parse

            def stop_before_recording(data, own):
                if b"unrecorded" in bytes(data) and own:
                    with open(path, "w") as file:
                        file.write(str(os.getpid()))
                    threading.Event().wait()
                return parse(data, own=own)

            framing.parse = stop_before_recording
            return lambda task: task

    pool = make_pool(Job(), num_workers=1, max_restarts=2)
    assert pool.result(pool.submit(0)) == 0
    first, *others = [pool.submit(x) for x in ("unrecorded", "a", "b", "c")]
    os.kill(int(fifo.read()), signal.SIGKILL)
    with pytest.raises(TaskLost) as caught:
        pool.result(first)
    assert not caught.value.started
    assert [pool.result(ticket) for ticket in others] == ["a", "b", "c"]  # they were in the queue


class _Counting:
    """A job whose answers depend on the tasks of the same key before, like a stream."""

    def start(self, worker_index, worker_count):
        parts, counts = {}, {}

        def handle(task):
            number, name, *arguments = task
            if name == "define":
                parts[number] = pickle.loads(arguments[0])
            elif name == "release":
                del parts[number]
            elif name == "die":
                os._exit(1)
            elif name == "seek":
                counts[number] = arguments[0]
            elif name == "parts":
                return sorted(parts)
            else:
                counts[number] = counts.get(number, 0) + 1
                return parts[number], counts[number]
            return None

        return handle


def test_an_affinity_is_lost_until_the_caller_has_learned_of_it(make_pool):
    pool = make_pool(_Counting(), num_workers=2, max_restarts=5)
    for key in (0, 1):
        pool.define(key, pickle.dumps(f"part {key}"), affinity=key)
    assert pool.result(pool.submit((0, "next"), affinity=0)) == ("part 0", 1)
    assert pool.result(pool.submit((1, "next"), affinity=1)) == ("part 1", 1)
    dying, behind = pool.submit((0, "die"), affinity=0), pool.submit((0, "next"), affinity=0)
    pool.wait([dying])
    later = pool.submit((0, "next"), affinity=0)  # by a caller that has not learned of the loss
    pool.discard(behind)
    with pytest.raises(TaskLost):
        pool.result(later)
    # The definition is there, and the caller can continue where it was.
    pool.submit((0, "seek", 1), affinity=0)
    assert pool.result(pool.submit((0, "next"), affinity=0)) == ("part 0", 2)
    with pytest.raises(TaskLost) as caught:
        pool.result(dying)
    assert caught.value.started
    assert pool.result(pool.submit((0, "next"), affinity=0)) == ("part 0", 3)
    assert pool.result(pool.submit((1, "next"), affinity=1)) == ("part 1", 2)


def test_the_loss_of_an_idle_worker_is_reported_for_its_affinities(make_pool, wait_until_gone):
    pool = make_pool(_Counting(), num_workers=1, max_restarts=5)
    pool.define(0, pickle.dumps("part"), affinity=0)
    assert pool.result(pool.submit((0, "next"), affinity=0)) == ("part", 1)
    pid = pool.pids[0]
    os.kill(pid, signal.SIGKILL)
    wait_until_gone(pid)
    assert not pool.ready(0)
    with pytest.warns(RuntimeWarning, match="is replaced: was killed by signal 9"):
        pool.wait([0])
    with pytest.raises(TaskLost):
        pool.result(pool.submit((0, "next"), affinity=0))
    assert pool.result(pool.submit((0, "next"), affinity=0)) == ("part", 1)


def test_replacements_have_the_definitions_that_were_not_released(make_pool):
    pool = make_pool(_Counting(), num_workers=1, max_restarts=5)
    for number in range(4):
        pool.define(number, pickle.dumps(number))
    pool.release(1)
    pool.release(3)  # the last one
    with pytest.raises(TaskLost):
        pool.result(pool.submit((0, "die")))
    assert pool.result(pool.submit((0, "parts"))) == [0, 2]
    pool.define(5, pickle.dumps(5))
    assert pool.result(pool.submit((5, "next"))) == (5, 1)


def test_arrays_of_a_lost_worker_stay_valid_and_disturb_no_replacement(make_pool):
    def handle(task):
        if task == "die":
            os._exit(1)
        return np.full(300_000, task)

    pool = make_pool(handle, num_workers=1, max_restarts=5, slot_bytes=16 << 20)
    kept = pool.result(pool.submit(1))
    waiting = pool.submit(2)
    dying = pool.submit("die")
    with pytest.raises(TaskLost):
        pool.result(dying)
    taken = pool.result(waiting)  # received before the loss, opened after it
    fresh = pool.result(pool.submit(3))
    del kept, taken  # returns slots of the worker that is gone
    others = [pool.result(pool.submit(x)) for x in range(4, 8)]
    assert (fresh == 3).all()
    assert [int(array[-1]) for array in others] == [4, 5, 6, 7]


def test_too_many_losses_fail_the_pool(make_pool):
    pool = make_pool(lambda task: os._exit(9), num_workers=2, max_restarts=1)
    for _ in range(2):
        with pytest.raises(TaskLost):
            pool.result(pool.submit(0))
    with pytest.raises(WorkerDied, match="2 workers were replaced within 600 seconds"):
        pool.result(pool.submit(0))
    with pytest.raises(WorkerDied):
        pool.submit(0)


def test_losses_that_are_rare_never_add_up():
    budget = RestartBudget(3, seconds=600)
    assert all(budget.take(day * 86400.0) for day in range(1000))


def test_a_hung_task_is_lost_with_its_stack(make_pool):
    def stuck_in_this_function(task):
        if task == "hang":
            threading.Event().wait()
        return task

    pool = make_pool(stuck_in_this_function, num_workers=1, max_restarts=2, task_timeout=0.3)
    assert pool.result(pool.submit(1)) == 1
    with pytest.raises(TaskLost, match=r"task timeout after 0\.3 s") as caught:
        pool.result(pool.submit("hang"))
    assert caught.value.started
    assert "stuck_in_this_function" in str(caught.value.cause)
    assert pool.result(pool.submit(2)) == 2


def test_a_pause_of_the_consumer_is_no_hang(make_pool):
    """A worker that waits until its result is read has not hung."""
    pool = make_pool(
        lambda x: bytes(8 << 20), num_workers=1, max_restarts=0, task_timeout=1.0, slot_bytes=0
    )
    tickets = [pool.submit(x) for x in range(3)]
    pool.result(tickets[0])
    time.sleep(2.2)  # This is the pause, longer than the timeout; nothing is waited for.
    assert [len(pool.result(ticket)) for ticket in tickets[1:]] == [8 << 20] * 2


def test_a_stopped_worker_is_reported_after_a_while(make_pool, tmp_path):
    taken = str(tmp_path / "taken")
    os.mkfifo(taken)

    def handle(task):
        open(taken, "w").close()  # Blocks until the test has opened it too.
        time.sleep(task)

    with use_policy(worker_silence_seconds=0.3, liveness_check_seconds=0.1):
        pool = make_pool(handle, num_workers=1)
    ticket = pool.submit(1000)
    open(taken).close()
    os.kill(pool.pids[0], signal.SIGSTOP)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        while not any("The process is stopped" in str(warning.message) for warning in caught):
            pool.wait([ticket], timeout=0.1)
    os.kill(pool.pids[0], signal.SIGCONT)
    assert "Worker 0 of 1" in str(caught[-1].message)


def test_a_worker_beyond_its_memory_limit_is_replaced_between_tasks(make_pool):
    class Job:
        def start(self, worker_index, worker_count):
            kept = []

            def handle(task):
                kept.append(np.ones(20 << 20, np.uint8))
                time.sleep(0.06)  # the limit is checked a few times per second
                return task, os.getpid()

            return handle

    pool = make_pool(Job(), num_workers=2, memory_limit=300 << 20)
    tickets = [pool.submit(x) for x in range(60)]
    answers = [pool.result(ticket) for ticket in tickets]
    assert [x for x, _ in answers] == list(range(60))
    assert pool.recycled >= 2
    assert pool.restarts == 0
    assert len({pid for _, pid in answers}) >= 4  # At most 15 tasks fit into one of them.


def test_a_memory_limit_below_what_a_worker_needs_is_an_error(make_pool):
    pool = make_pool(lambda task: task, num_workers=1, memory_limit=1 << 20)
    with pytest.raises(ValueError, match="memory limit of a worker process is 1 MiB, and it needs"):
        pool.result(pool.submit(1))


def test_the_number_of_workers_changes_while_tasks_are_computed(make_pool):
    pool = make_pool(lambda x: (x, os.getpid()), num_workers=1)
    tickets = []
    for step, count in enumerate([1, 4, 2, 3, 1, 2]):
        pool.resize(count)
        assert pool.capacity == count
        tickets += [pool.submit(100 * step + x) for x in range(50)]
    answers = [pool.result(ticket)[0] for ticket in tickets]
    assert answers == [100 * step + x for step in range(6) for x in range(50)]
    assert pool.restarts == 0
    with pytest.raises(ValueError, match="count must be at least 1, got 0"):
        pool.resize(0)


def test_an_affinity_moves_when_its_worker_is_no_longer_needed(make_pool):
    pool = make_pool(_Counting(), num_workers=2)
    for key in (0, 1):
        pool.define(key, pickle.dumps(key), affinity=key)
        assert pool.result(pool.submit((key, "next"), affinity=key)) == (key, 1)
    pool.resize(1)
    assert pool.result(pool.submit((0, "next"), affinity=0)) == (0, 2)
    with pytest.raises(TaskLost, match="the number of workers was reduced"):
        pool.result(pool.submit((1, "next"), affinity=1))
    assert pool.result(pool.submit((1, "next"), affinity=1)) == (1, 1)


def test_wait_is_woken_by_a_change_of_capacity(make_pool):
    pool = make_pool(lambda x: threading.Event().wait(), num_workers=1, grace=0.05)
    ticket = pool.submit(0)
    waiting = threading.Thread(target=pool.resize, args=(2,))
    woken = []
    waiter = threading.Thread(target=lambda: woken.append(pool.wait([ticket])))
    waiter.start()
    waiting.start()
    waiter.join(60)
    waiting.join()
    assert woken == [set()]


def test_tasks_in_the_background_are_lost_with_their_worker(make_pool):
    class Job:
        def start(self, worker_index, worker_count):
            from concurrent.futures import Future

            return lambda task: os._exit(1) if task == "die" else Future()

    pool = make_pool(Job(), num_workers=1, max_restarts=2)
    pending = [pool.submit(x) for x in range(3)]
    dying = pool.submit("die")
    for ticket in [*pending, dying]:
        with pytest.raises(TaskLost) as caught:
            pool.result(ticket)
        assert caught.value.started


def test_a_killed_worker_has_no_exit_code_where_the_program_ignores_sigchld(script):
    process = script("""
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        with WorkerPool(Apply(lambda x: os.kill(os.getpid(), 9)), num_workers=1) as pool:
            try:
                pool.result(pool.submit(0))
            except WorkerDied as error:
                print(error.exitcode, error)
    """)
    out, err = process.communicate(timeout=60)
    assert (err, process.returncode) == ("", 0)
    assert out.startswith("None Worker 0 of 1")
    assert "its exit status is unknown (SIGCHLD is ignored" in out


@pytest.mark.parametrize("closed", [(0,), (0, 1), (0, 1, 2), (2,)])
def test_workers_start_in_a_program_without_standard_streams(script, tmp_path, closed):
    process = script(
        """
        for fd in map(int, sys.argv[2:]):
            os.close(fd)
        with WorkerPool(Apply(lambda x: x + 1), num_workers=2) as pool:
            answers = [pool.result(pool.submit(x)) for x in range(4)]
        with open(sys.argv[1], "w") as file:
            file.write(repr(answers))
        os._exit(0)
        """,
        tmp_path / "out",
        *closed,
    )
    process.communicate(timeout=60)
    assert (tmp_path / "out").read_text() == "[1, 2, 3, 4]"


@pytest.mark.filterwarnings("ignore:Worker 0 of 2")
def test_a_task_is_computed_although_its_wake_up_reached_a_worker_that_retires(make_pool):
    """The queue wakes one waiting worker for a task, and that worker may exit without taking it."""
    pool = make_pool(lambda task: os.getpid(), num_workers=2, max_restarts=1)
    first, second = (pool.result(pool.submit(None, affinity=worker)) for worker in range(2))
    # The worker that has waited for longest is woken: the second one, when the first was replaced.
    os.kill(first, signal.SIGKILL)
    while pool.restarts == 0:
        pool.wait([pool.submit(None, affinity=1)], timeout=10)
    replacement = pool.result(pool.submit(None, affinity=2))
    for pid in (replacement, second):
        _wait_until_asleep(pid)
    os.kill(second, signal.SIGSTOP)
    ticket = pool.submit(None)
    pool.resize(1)
    os.kill(second, signal.SIGCONT)
    assert pool.result(ticket, timeout=60) in (replacement, second)


def _wait_until_asleep(pid):
    """Wait until a worker waits for a task."""
    state = ""
    while state != "S":
        with open(f"/proc/{pid}/stat") as file:
            state = file.read().rpartition(")")[2].split()[0]
