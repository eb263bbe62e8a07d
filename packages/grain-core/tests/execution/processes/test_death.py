"""How workers end: their own deaths, the pool's, and the consumer's, with real signals."""

import gc
import os
import signal
import subprocess
import sys
import threading

import numpy as np
import pytest

from grain.execution.processes.error_report import WorkerDied
from grain.execution.processes.pool import WorkerPool

from ...helpers.processes import PATIENCE, finish


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV, signal.SIGTERM])
def test_a_worker_killed_by_a_signal_is_reported_with_it(make_pool, fifo, number):
    path = fifo.path

    def handle(task):
        with open(path, "w") as file:
            file.write(str(os.getpid()))
        threading.Event().wait()

    pool = make_pool(handle, num_workers=2)
    ticket = pool.submit("x")
    pid = int(fifo.read())
    os.kill(pid, number)
    with pytest.raises(WorkerDied) as caught:
        pool.result(ticket)
    error = caught.value
    assert error.exitcode == -number
    assert error.pid == pid == pool.pids[error.worker]
    assert error.ticket == ticket
    assert f"process {pid}) was killed by signal {int(number)} ({number.name}" in str(error)
    assert "while it was computing an element" in str(error)


class _WaitsWhenUnpickled:
    """Something of a job whose unpickling does not end."""

    def __init__(self, path):
        self.path = path

    def __setstate__(self, state):
        with open(state["path"], "w") as file:
            file.write(str(os.getpid()))
        threading.Event().wait()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
@pytest.mark.parametrize("state", ["at once", "in worker_init_fn", "unpickling", "in start"])
def test_a_worker_killed_while_it_starts_is_reported_with_the_signal(fifo, state, number):
    path = fifo.path

    def tell_and_wait(*_):
        with open(path, "w") as file:
            file.write(str(os.getpid()))
        threading.Event().wait()

    class Job:
        def __init__(self):
            self.held = _WaitsWhenUnpickled(path) if state == "unpickling" else None

        def start(self, worker_index, worker_count):
            if state == "in start":
                tell_and_wait()
            return lambda task: task

    init = tell_and_wait if state == "in worker_init_fn" else None
    with WorkerPool(Job(), num_workers=1, worker_init_fn=init) as pool:
        ticket = pool.submit(1)
        pid = pool.pids[0] if state == "at once" else int(fifo.read())
        os.kill(pid, number)
        with pytest.raises(WorkerDied) as caught:
            pool.result(ticket)
        assert caught.value.exitcode == -number
        assert caught.value.pid == pid == pool.pids[0]
        with pytest.raises(WorkerDied):
            pool.submit(2)


def test_a_death_is_noticed_while_the_other_workers_go_on(make_pool, fifo):
    """They have news all the time, and none of it is waited for."""
    path = fifo.path

    def handle(task):
        if task is None:
            with open(path, "w") as file:
                file.write(str(os.getpid()))
            threading.Event().wait()
        return task

    pool = make_pool(handle, num_workers=2)
    stuck = pool.submit(None, affinity=0)
    pid = int(fifo.read())
    os.kill(pid, signal.SIGKILL)

    def go_on():
        for number in range(10**6):
            assert pool.result(pool.submit(number, affinity=1)) == number

    with pytest.raises(WorkerDied) as caught:
        go_on()
    assert (caught.value.worker, caught.value.exitcode) == (0, -signal.SIGKILL)
    assert caught.value.ticket == stuck


def test_a_worker_that_exits_by_itself_is_reported_with_its_exit_code(make_pool):
    pool = make_pool(lambda task: os._exit(7), num_workers=1)
    with pytest.raises(WorkerDied, match="exit code 7") as caught:
        pool.result(pool.submit("x"))
    assert caught.value.exitcode == 7


def test_an_idle_workers_death_is_reported_to_the_next_call_that_waits(make_pool, wait_until_gone):
    pool = make_pool(lambda task: task, num_workers=2)
    assert pool.result(pool.submit(1, affinity=0)) == 1
    os.kill(pool.pids[0], signal.SIGKILL)
    wait_until_gone(pool.pids[0])
    with pytest.raises(WorkerDied) as caught:
        pool.result(pool.submit(2, affinity=0))
    assert caught.value.worker == 0
    assert caught.value.ticket is None
    assert "while" not in str(caught.value)


def test_a_death_is_noticed_even_if_a_child_of_the_worker_holds_its_socket(make_pool, fifo):
    path = fifo.path

    def handle(task):
        pid = os.fork()
        if pid == 0:
            threading.Event().wait()
        with open(path, "w") as file:
            file.write(f"{os.getpid()} {pid}")
        threading.Event().wait()

    pool = make_pool(handle, num_workers=1)
    ticket = pool.submit("x")
    worker, child = map(int, fifo.read().split())
    try:
        os.kill(worker, signal.SIGKILL)
        with pytest.raises(WorkerDied):
            pool.result(ticket)
    finally:
        os.kill(child, signal.SIGKILL)


def test_results_that_arrived_before_a_death_can_still_be_taken(make_pool):
    pool = make_pool(lambda task: os._exit(3) if task == "die" else task, num_workers=1)
    tickets = [pool.submit(x) for x in (1, 2, "die", 4)]
    with pytest.raises(WorkerDied):
        pool.result(tickets[3])
    assert pool.result(tickets[0]) == 1
    assert pool.result(tickets[1]) == 2
    with pytest.raises(WorkerDied):
        pool.result(tickets[2])
    with pytest.raises(WorkerDied):
        pool.submit(5)


def test_worker_died_survives_pickling():
    import pickle

    error = pickle.loads(pickle.dumps(WorkerDied(1, 2, 77, -9, 5)))
    assert (error.worker, error.pid, error.exitcode, error.ticket) == (1, 77, -9, 5)
    assert "SIGKILL" in str(error)


def test_close_ends_the_workers_and_leaves_nothing(census):
    before = census()
    pool = WorkerPool(_echo(), num_workers=2)
    kept = pool.result(pool.submit(np.zeros(1 << 20, np.uint8)))
    pool.close()
    del kept
    assert not census().beyond(before)


def test_leaving_the_block_by_an_exception_ends_the_workers(census):
    before = census()
    pool = WorkerPool(_echo(), num_workers=2)

    def consume():
        with pool:
            pool.submit(1)
            raise LookupError

    with pytest.raises(LookupError):
        consume()
    assert not census().beyond(before)
    assert pool.closed


def test_a_dropped_pool_ends_its_workers(census):
    before = census()
    pool = WorkerPool(_echo(), num_workers=2)
    ticket = pool.submit(1)
    assert pool.result(ticket) == 1
    pids = pool.pids
    del pool
    gc.collect()
    assert not census().beyond(before)
    for pid in pids:
        assert not os.path.exists(f"/proc/{pid}")


def test_a_busy_worker_is_ended_by_sigterm(fifo, census):
    before = census()
    path = fifo.path

    def handle(task):
        with open(path, "w") as file:
            file.write("busy")
        threading.Event().wait()

    pool = WorkerPool(_apply(handle), num_workers=1, grace=0.05)
    pool.submit(None)
    assert fifo.read() == "busy"
    pool.close()
    assert pool.exit_codes == [-signal.SIGTERM]
    assert not census().beyond(before)


def test_a_worker_deaf_to_sigterm_is_killed(fifo, census):
    before = census()
    path = fifo.path

    def handle(task):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        with open(path, "w") as file:
            file.write("deaf")
        while True:
            signal.pause()

    pool = WorkerPool(_apply(handle), num_workers=1, grace=0.05)
    pool.submit(None)
    assert fifo.read() == "deaf"
    pool.close()
    assert pool.exit_codes == [-signal.SIGKILL]
    assert not census().beyond(before)


def test_a_worker_that_hangs_in_its_exit_functions_is_ended(census):
    before = census()

    class Job:
        def start(self, worker_index, worker_count):
            import atexit

            atexit.register(threading.Event().wait)
            return lambda task: task

    pool = WorkerPool(Job(), num_workers=1, grace=0.05)
    assert pool.result(pool.submit(3)) == 3
    pool.close()
    assert pool.exit_codes == [-signal.SIGTERM]
    assert not census().beyond(before)


def test_exit_functions_of_the_users_code_run_in_the_worker(tmp_path):
    path = str(tmp_path / "left")

    class Job:
        def start(self, worker_index, worker_count):
            import atexit

            atexit.register(lambda: open(path, "w").close())
            return lambda task: task

    with WorkerPool(Job(), num_workers=1, grace=PATIENCE) as pool:
        pool.result(pool.submit(0))
    assert os.path.exists(path)


def test_a_worker_blocked_by_a_consumer_that_does_not_read_ends_with_the_pool(census):
    before = census()
    pool = WorkerPool(_apply(lambda x: bytes(1 << 20)), num_workers=1, slot_bytes=0, grace=PATIENCE)
    for x in range(8):
        pool.submit(x)
    first = pool.submit(9)
    assert not pool.ready(first)
    pool.close()
    assert not census().beyond(before)


def test_interrupting_the_close_still_ends_the_workers(fifo, census):
    before = census()
    path = fifo.path

    def handle(task):
        with open(path, "w") as file:
            file.write("busy")
        threading.Event().wait()

    pool = WorkerPool(_apply(handle), num_workers=1, grace=PATIENCE)
    pool.submit(None)
    assert fifo.read() == "busy"
    signal.signal(signal.SIGALRM, signal.default_int_handler)
    signal.setitimer(signal.ITIMER_REAL, 0.05)
    with pytest.raises(KeyboardInterrupt):
        pool.close()
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    assert not census().beyond(before)


def test_an_interrupt_while_waiting_leaves_the_pool_usable(make_pool, fifo):
    path = fifo.path

    def handle(task):
        with open(path) as file:
            return file.read()

    pool = make_pool(handle, num_workers=1)
    ticket = pool.submit(None)
    signal.signal(signal.SIGALRM, signal.default_int_handler)
    signal.setitimer(signal.ITIMER_REAL, 0.05)
    with pytest.raises(KeyboardInterrupt):
        pool.result(ticket)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    with open(path, "w") as file:
        file.write("still here")
    assert pool.result(ticket) == "still here"


def test_many_pools_leave_nothing_behind(census):
    def use(n):
        pool = WorkerPool(_apply(lambda x: np.full(200_000, x)), num_workers=1)
        if n % 10 == 0:
            kept = [pool.result(pool.submit(x)) for x in range(3)]
            assert int(kept[2][0]) == 2
        else:
            pool.submit(n)

    use(0)
    gc.collect()
    before, memory = census(), _resident()
    for n in range(100):
        use(n)
    gc.collect()
    assert not census().beyond(before)
    assert _resident() - memory < 20 << 20


def test_a_script_that_ends_with_a_running_pool_ends_clean(script, wait_until_gone):
    process = script("""
        pool = WorkerPool(Apply(lambda x: np.full(200_000, x)), num_workers=2)
        kept = pool.result(pool.submit(1))
        for x in range(20):
            pool.submit(x)
        print(*pool.pids)
    """)
    code, out, err = finish(process)
    assert (code, err) == (0, "")
    for pid in map(int, out.split()):
        wait_until_gone(pid)


def test_a_script_that_raises_in_the_loop_shows_its_own_error_only(script, wait_until_gone):
    process = script("""
        with WorkerPool(Apply(lambda x: x), num_workers=2) as pool:
            print(*pool.pids)
            for x in range(20):
                pool.submit(x)
            raise ValueError("mine")
    """)
    code, out, err = finish(process)
    assert code == 1
    assert err.count("Traceback") == 1
    assert err.strip().endswith("ValueError: mine")
    for pid in map(int, out.split()):
        wait_until_gone(pid)


def test_sys_exit_in_a_thread_that_uses_a_pool_ends_clean(script, wait_until_gone):
    process = script("""
        pool = WorkerPool(Apply(lambda x: threading.Event().wait()), num_workers=1)
        print(*pool.pids, flush=True)
        def wait():
            try:
                pool.result(pool.submit(0))
            except RuntimeError:
                pass
        threading.Thread(target=wait, daemon=True).start()
    """)
    code, out, err = finish(process)
    assert (code, err) == (0, "")
    for pid in map(int, out.split()):
        wait_until_gone(pid)


@pytest.mark.parametrize("moment", ["starting", "waiting", "computing"])
def test_ctrl_c_ends_everything_and_only_the_consumer_speaks(script, wait_until_gone, moment):
    process = script(
        """
        def handle(x):
            if x == "report":
                return os.getpid()
            os.write(1, b"busy\\n")
            while True:
                time.sleep(1000)

        moment = sys.argv[1]
        pool = WorkerPool(Apply(handle), num_workers=2)
        if moment != "starting":
            for worker in range(2):
                pool.result(pool.submit("report", affinity=worker))
        print(*pool.pids, flush=True)
        try:
            if moment == "computing":
                pool.result(pool.submit("hang"))
            else:
                print("busy", flush=True)
                time.sleep(1000)
        except KeyboardInterrupt:
            print("interrupted")
        """,
        moment,
    )
    pids = [int(word) for word in process.stdout.readline().split()]
    assert process.stdout.readline() == "busy\n"
    assert len(pids) == 2
    os.killpg(process.pid, signal.SIGINT)
    code, out, err = finish(process)
    assert (code, out, err) == (0, "interrupted\n", "")
    for pid in pids:
        wait_until_gone(pid)


@pytest.mark.parametrize(
    ("moment", "how"),
    [
        ("starting", signal.SIGKILL),
        ("idle", signal.SIGKILL),
        ("idle", signal.SIGTERM),
        ("busy in python", signal.SIGKILL),
        ("busy in c", signal.SIGKILL),
        ("busy in c", signal.SIGUSR1),  # at which the script calls os._exit
        ("thread", signal.SIGKILL),
    ],
)
def test_workers_die_with_a_consumer_that_dies(script, wait_until_gone, how, moment):
    process = script(
        """
        moment = sys.argv[1]
        signal.signal(signal.SIGUSR1, lambda *_: os._exit(0))

        def handle(x):
            if x == "report":
                return os.getpid()
            os.write(1, b"ready\\n")
            if moment == "busy in python":
                while True:
                    pass
            # Holds the interpreter's lock for hours.
            sum(range(10**14))

        def make():
            global pool
            pool = WorkerPool(Apply(handle), num_workers=2)

        if moment == "thread":  # one that ends before the process does
            thread = threading.Thread(target=make)
            thread.start()
            thread.join()
        else:
            make()
        if moment != "starting":
            for worker in range(2):
                pool.result(pool.submit("report", affinity=worker))
        print(*pool.pids, flush=True)
        if moment.startswith("busy"):
            for worker in range(2):
                pool.submit("hang", affinity=worker)
        else:
            os.write(1, b"ready\\nready\\n")
        while True:
            signal.pause()
        """,
        moment,
    )
    pids = [int(word) for word in process.stdout.readline().split()]
    assert [process.stdout.readline() for _ in range(2)] == ["ready\n"] * 2
    assert len(pids) == 2
    process.send_signal(how)
    process.wait(PATIENCE)
    for pid in pids:
        wait_until_gone(pid)
    assert process.stderr.read() == ""


def test_where_the_system_sends_no_signal_a_thread_watches_the_parent():
    """The way for systems other than Linux."""
    read, write = os.pipe()
    code = (
        "import sys, threading\n"
        "from grain.execution.processes import parent_watch\n"
        "parent_watch.watch_by_thread(int(sys.argv[1]))\n"
        "print('tied', flush=True)\n"
        "threading.Event().wait()\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(read)],
        pass_fds=[read],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)},
    )
    os.close(read)
    try:
        assert process.stdout.readline() == b"tied\n"
        assert process.poll() is None
    finally:
        os.close(write)
    assert process.wait(PATIENCE) == 1
    process.stdout.close()


def _echo():
    return _apply(lambda task: task)


def _apply(function):
    class Apply:
        def start(self, worker_index, worker_count):
            return function

    return Apply()


def _resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
