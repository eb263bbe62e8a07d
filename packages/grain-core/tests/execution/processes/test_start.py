"""What a worker starts with, and what happens when it cannot start."""

import os
import sys
import threading

import numpy as np
import pytest

import grain
from grain._policy import use_policy
from grain.execution.processes.error_report import WorkerDied

from ...helpers.processes import finish


def result(pool, task=None):
    return pool.result(pool.submit(task))


def test_path_arguments_and_directory_are_those_of_the_consumer(make_pool, monkeypatch, tmp_path):
    module = tmp_path / "only_here.py"
    module.write_text("VALUE = 42\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["program", "--flag"])

    def handle(task):
        import only_here

        return only_here.VALUE, sys.argv, os.getcwd(), sys.path

    value, argv, directory, path = result(make_pool(handle, num_workers=1))
    assert value == 42
    assert argv == ["program", "--flag"]
    assert directory == str(tmp_path)
    assert path == sys.path


@pytest.mark.parametrize("setting", [None, "", "0", "false"])
def test_workers_see_no_accelerator(make_pool, monkeypatch, setting):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
    monkeypatch.setenv("MY_SETTING", "kept")
    monkeypatch.delenv("GRAIN_WORKER_KEEP_DEVICES", raising=False)
    if setting is not None:
        monkeypatch.setenv("GRAIN_WORKER_KEEP_DEVICES", setting)
    environment = result(make_pool(lambda task: dict(os.environ), num_workers=1))
    assert environment["JAX_PLATFORMS"] == "cpu"
    assert environment["CUDA_VISIBLE_DEVICES"] == ""
    assert environment["MY_SETTING"] == "kept"
    assert os.environ["CUDA_VISIBLE_DEVICES"] == "0,1"


def test_workers_see_accelerators_if_the_setting_says_so(make_pool, monkeypatch, give_setting):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
    give_setting("worker_keep_devices", "true")
    environment = result(make_pool(lambda task: dict(os.environ), num_workers=1))
    assert environment["CUDA_VISIBLE_DEVICES"] == "0,1"
    assert environment.get("JAX_PLATFORMS") == os.environ.get("JAX_PLATFORMS")


def test_threads_of_linear_algebra_sleep_in_workers_unless_the_user_says_otherwise(
    make_pool, monkeypatch
):
    monkeypatch.delenv("OPENBLAS_THREAD_TIMEOUT", raising=False)
    environment = result(make_pool(lambda task: dict(os.environ), num_workers=1))
    assert environment["OPENBLAS_THREAD_TIMEOUT"] == "4"
    assert "OPENBLAS_THREAD_TIMEOUT" not in os.environ
    monkeypatch.setenv("OPENBLAS_THREAD_TIMEOUT", "20")
    environment = result(make_pool(lambda task: dict(os.environ), num_workers=1))
    assert environment["OPENBLAS_THREAD_TIMEOUT"] == "20"


def test_garbage_is_collected_in_workers_but_not_what_they_started_with(make_pool):
    def handle(task):
        import gc

        return gc.isenabled(), gc.get_freeze_count() > 1000

    def init(index, count):
        import gc

        assert gc.isenabled()

    assert result(make_pool(handle, num_workers=1, worker_init_fn=init)) == (True, True)


def test_a_worker_loads_only_what_its_pipeline_needs():
    def loaded(element):
        return sorted(sys.modules)

    ds = grain.MapDataset.range(1).map(loaded).to_iter_dataset()
    with iter(ds.mp_prefetch(grain.MultiprocessingOptions(num_workers=1))) as iterator:
        modules = set(next(iterator))
    assert {"grain.dataset.map", "grain.execution.fused_stage"} <= modules
    others = {"subprocess", "json", "grain.plugins", "grain.samplers", "grain.dataset.mix"}
    here = {
        "grain.execution.worker_session",
        "grain.execution.fused_iterator",
        "grain.execution.processes.pool",
    }
    assert not modules & (others | here)


def test_a_worker_is_a_fresh_process_with_one_thread_and_few_modules(make_pool):
    def handle(task):
        import sys
        import threading

        heavy = ("jax", "tensorflow", "torch", "orbax", "pyarrow", "array_record", "pytest")
        return threading.active_count(), [name for name in heavy if name in sys.modules]

    assert result(make_pool(handle, num_workers=1)) == (1, [])


def test_a_worker_holds_few_descriptors_and_none_of_the_consumers(make_pool, tmp_path):
    with open(tmp_path / "mine", "w") as file:
        os.set_inheritable(file.fileno(), True)
        pool = make_pool(
            lambda task: [os.readlink(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd")
                          if os.path.exists(f"/proc/self/fd/{fd}")],
            num_workers=1,
        )  # fmt: skip
        names = result(pool)
    assert str(tmp_path / "mine") not in names
    assert sum("memfd" in name for name in names) == 1  # for its stack, when it is stuck
    assert len(names) <= 8


def test_worker_init_fn_runs_in_each_worker_before_the_job_is_loaded(make_pool):
    class Job:
        def __setstate__(self, state):
            import sys

            self.seen = list(sys._grain_test_marks)

        def __getstate__(self):
            return {"x": 1}

        def start(self, worker_index, worker_count):
            return lambda task: (self.seen, os.getpid())

    def init(index, count):
        sys._grain_test_marks = [(index, count)]

    pool = make_pool(Job(), num_workers=2, worker_init_fn=init)
    answers = [pool.result(pool.submit(None, affinity=w)) for w in range(2)]
    assert [seen for seen, _ in answers] == [[(0, 2)], [(1, 2)]]
    assert not hasattr(sys, "_grain_test_marks")


@pytest.mark.parametrize("where", ["worker_init_fn", "unpickling the job", "starting the job"])
def test_a_worker_that_cannot_start_says_why(make_pool, where):
    def refuse():
        raise LookupError(f"no luck in {where}")

    class Job:
        def __reduce__(self):
            return (refuse, ()) if where == "unpickling the job" else (Job, ())

        def start(self, worker_index, worker_count):
            refuse()

    def init(index, count):
        if where == "worker_init_fn":
            refuse()

    pool = make_pool(Job(), num_workers=1, worker_init_fn=init)
    ticket = pool.submit(None)
    for _ in range(2):
        with pytest.raises(LookupError, match=f"no luck in {where}") as caught:
            pool.result(ticket)
        assert f"worker 0 of 1, {where}" in str(caught.value.__cause__)
    with pytest.raises(LookupError):
        pool.submit(None)


def test_an_interpreter_that_does_not_start_is_reported(make_pool, monkeypatch):
    monkeypatch.setattr(sys, "executable", "/bin/false")
    pool = make_pool(lambda task: task, num_workers=1)
    with pytest.raises(WorkerDied, match="exit code 1"):
        pool.result(pool.submit(0))


def test_an_interpreter_that_never_starts_is_an_error_that_names_the_setting(
    make_pool, monkeypatch, tmp_path, give_setting
):
    stuck = tmp_path / "python"
    stuck.write_text("#!/bin/sh\nexec sleep 600\n")
    stuck.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(stuck))
    give_setting("process_start_timeout", "0.01")
    with use_policy(liveness_check_seconds=0.02):
        pool = make_pool(lambda task: task, num_workers=1)
        message = (
            r"interpreter of worker 0 of 1 \(process \d+\) did not start within 0\.01 seconds, the "
            r"setting `process_start_timeout`\..*GRAIN_PROCESS_START_TIMEOUT"
        )
        with pytest.raises(RuntimeError, match=message):
            pool.result(pool.submit(0))


@pytest.mark.parametrize("where", ["worker_init_fn", "the job", "a task"])
def test_the_start_timeout_ends_with_the_start_of_the_interpreter(make_pool, tmp_path, where):
    arrived, leave = str(tmp_path / "arrived"), str(tmp_path / "leave")
    os.mkfifo(arrived)
    os.mkfifo(leave)

    def meet():
        with open(arrived, "w"):
            pass
        with open(leave):
            return "done"

    class Job:
        def __reduce__(self):
            return (lambda *given: (meet() if where == "the job" else None, Job())[1], ())

        def start(self, worker_index, worker_count):
            return lambda task: meet() if where == "a task" else "done"

    def init(index, count):
        if where == "worker_init_fn":
            meet()

    with grain.config.override(process_start_timeout=0.01), use_policy(liveness_check_seconds=0.02):
        pool = make_pool(Job(), num_workers=1, worker_init_fn=init)
        ticket = pool.submit(None)
        with open(arrived) as file:
            file.read()
        # The pool checks its workers several times during the wait.
        with pytest.raises(TimeoutError, match="did not arrive within the timeout"):
            pool.result(ticket, timeout=0.1)
        with open(leave, "w"):
            pass
        assert pool.result(ticket) == "done"


def test_no_interpreter_at_all_is_an_error_that_leaves_nothing(make_pool, monkeypatch, census):
    before = census()
    monkeypatch.setattr(sys, "executable", "/nonexistent/python")
    with pytest.raises(FileNotFoundError):
        make_pool(lambda task: task)
    monkeypatch.setattr(sys, "executable", "")
    with pytest.raises(RuntimeError, match=r"sys\.executable is empty"):
        make_pool(lambda task: task)
    assert not census().beyond(before)


def test_a_large_array_of_the_job_exists_once_for_all_workers(make_pool):
    class Job:
        def __init__(self):
            self.array = np.arange(12_000_000)

        def start(self, worker_index, worker_count):
            def handle(task):
                total = int(self.array.sum())
                if task == "write":
                    self.array += 1
                # Memory that is this process's own; pages of the job are the file's.
                with open("/proc/self/smaps_rollup") as file:
                    own = next(int(line.split()[1]) for line in file if "Anonymous:" in line)
                return total, int(self.array[0]), own * 1024

            return handle

    job = Job()
    total = int(job.array.sum())
    pool = make_pool(job)
    *_, before = pool.result(pool.submit("read", affinity=0))
    assert pool.result(pool.submit("read", affinity=1))[:2] == (total, 0)
    assert before < job.array.nbytes
    # Still, each has its own to write to, and has it only then.
    _, first, after = pool.result(pool.submit("write", affinity=0))
    assert first == 1
    assert after - before > job.array.nbytes * 0.9
    assert pool.result(pool.submit("read", affinity=1))[:2] == (total, 0)
    assert job.array[0] == 0


def test_code_of_main_goes_by_value_and_main_is_not_run_again(script):
    process = script("""
        import dataclasses, enum
        print("main runs")

        FACTOR = 3

        class Color(enum.Enum):
            RED = 1

        @dataclasses.dataclass
        class Point:
            x: int
            color: Color

        def scale(p):
            return Point(p.x * FACTOR, Color.RED)

        pool = WorkerPool(Apply(lambda p: scale(p)), num_workers=2)
        got = [pool.result(pool.submit(Point(x, Color.RED))) for x in range(5)]
        assert got == [Point(3 * x, Color.RED) for x in range(5)], got
        assert all(type(p) is Point and p.color is Color.RED for p in got)
        print("done")
    """)
    assert finish(process) == (0, "main runs\ndone\n", "")


def test_interpreter_flags_are_carried_over(script):
    process = script("""
        flags = lambda _: (sys.warnoptions, sys.flags.dont_write_bytecode, sys.flags.utf8_mode)
        with WorkerPool(Apply(flags), num_workers=1) as pool:
            assert pool.result(pool.submit(0)) == flags(0), pool.result(pool.submit(0))
            assert flags(0)[0] == ["error"]
    """)
    assert finish(process) == (0, "", "")


def test_ctrl_c_and_sigterm_are_set_up_whatever_the_consumer_does_with_them(script):
    process = script("""
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
        def handle(_):
            mask = signal.pthread_sigmask(signal.SIG_BLOCK, [])
            return signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM), len(mask)
        with WorkerPool(Apply(handle), num_workers=1) as pool:
            got = pool.result(pool.submit(0))
        assert got == (signal.SIG_IGN, signal.SIG_DFL, 0), got
        assert signal.pthread_sigmask(signal.SIG_BLOCK, []) == {signal.SIGUSR1}
    """)
    assert finish(process) == (0, "", "")


def test_a_job_that_cannot_be_pickled_names_what_is_in_the_way(make_pool, census):
    before = census()

    class Operation:
        def __init__(self, name, inner):
            self.name = name
            self.inner = inner

        def start(self, worker_index, worker_count):
            return lambda task: task

    lock = threading.Lock()
    job = Operation("outer", Operation("inner", {"cache": [1, lock]}))
    with pytest.raises(TypeError) as caught:
        make_pool(job, name_owner=lambda value: getattr(value, "name", None))
    message = str(caught.value)
    assert message.startswith(
        "Cannot send inner to worker processes: inner['cache'][1] is a _thread.lock"
    )
    assert "__getstate__" in message
    with pytest.raises(TypeError, match=r"worker_init_fn variable 'lock' is a _thread\.lock"):
        make_pool(lambda task: task, worker_init_fn=lambda i, n: lock)
    assert not census().beyond(before)
