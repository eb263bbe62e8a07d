"""A program that ends while threads read ahead: elements are finished, and nothing is said."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

import pytest

# The program ends as soon as a thread has started an element, which takes a moment. Started and finished
# elements are written with one call each, so that no output is lost.
PROGRAM = """
import os, sys, threading, time
import grain

started = threading.Event()

def slow(x):
    if threading.current_thread() is threading.main_thread():
        time.sleep(0.02)
        return x
    os.write(1, b"started ")
    started.set()
    time.sleep(0.2)
    os.write(1, b"finished ")
    return x

class Slow(grain.IterDataset):
    def __iter__(self):
        slow(0)
        return grain.MapDataset.range(1).to_iter_dataset().__iter__()

def read(ds):
    iterator = iter(ds)
    while not started.is_set():
        next(iterator)
    return iterator

MAKE = {
    "a thread that reads an iterator": lambda: read(
        grain.experimental.ThreadPrefetchIterDataset(
            grain.MapDataset.range(100).to_iter_dataset(
                grain.ReadOptions(num_threads=0, prefetch_buffer_size=0)
            ).map(slow), prefetch_buffer_size=20
        )
    ),
    "threads that read elements": lambda: read(
        grain.MapDataset.range(1000).map(slow).to_iter_dataset(
            grain.ReadOptions(num_threads=3, prefetch_buffer_size=20)
        )
    ),
    "threads that open datasets": lambda: read(
        grain.experimental.InterleaveIterDataset(
            [Slow() for _ in range(1000)], cycle_length=1, num_make_iter_threads=2,
            make_iter_buffer_size=8,
        )
    ),
}
"""


def run(program: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-W", "error", "-c", PROGRAM + textwrap.dedent(program)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize("kept", ["kept", "dropped"])
@pytest.mark.parametrize(
    "kind",
    [
        "a thread that reads an iterator",
        "threads that read elements",
        "threads that open datasets",
    ],
)
def test_elements_that_were_started_are_finished_when_the_program_ends(kind, kept):
    done = run(f"""
        iterator = MAKE[{kind!r}]()
        if {kept == "dropped"}:
            del iterator
    """)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count("started") == done.stdout.count("finished") > 0


def test_an_element_that_never_comes_does_not_keep_the_program():
    done = run("""
        def never(x):
            if x == 3:
                started.set()
                threading.Event().wait()
            return x

        ds = grain.MapDataset.range(100).to_iter_dataset().map(never)
        iterator = iter(grain.experimental.ThreadPrefetchIterDataset(ds, prefetch_buffer_size=9))
        assert next(iterator) == 0
        assert started.wait(30)
        print("ends")
    """)
    assert (done.returncode, done.stdout, done.stderr) == (0, "ends\n", "")


def test_ctrl_c_while_an_element_is_waited_for_ends_the_program_at_once_and_silently():
    done = run("""
        import signal
        from grain._policy import current_policy, install_policy
        from grain.execution.thread_shutdown import BackgroundThread

        install_policy(current_policy().replace(thread_join_seconds=600))

        def never(x):
            if x == 3:
                started.set()
                main = threading.main_thread()
                while not joining.wait(0.01):
                    pass
                signal.pthread_kill(main.ident, signal.SIGINT)
                threading.Event().wait()
            return x

        joining = threading.Event()
        join = BackgroundThread.join

        def watched_join(self, timeout=-1):
            joining.set()
            join(self, timeout)

        ds = grain.MapDataset.range(100).to_iter_dataset().map(never)
        iterator = iter(grain.experimental.ThreadPrefetchIterDataset(ds, prefetch_buffer_size=9))
        assert next(iterator) == 0
        assert started.wait(30)
        BackgroundThread.join = watched_join
        print("ends")
    """)
    assert (done.returncode, done.stdout, done.stderr) == (0, "ends\n", "")


def test_what_workers_compute_for_a_thread_is_waited_for_before_they_end(tmp_path):
    done = run(f"""
        mark = {str(tmp_path / "mark")!r}

        def in_worker(x):
            if x == 3:
                os.close(os.open(mark, os.O_CREAT))
                time.sleep(0.2)
                os.write(1, b"finished")
            return x

        ds = grain.MapDataset.range(4).map(in_worker).to_iter_dataset()
        ds = ds.mp_prefetch(grain.MultiprocessingOptions(num_workers=1))
        iterator = iter(grain.experimental.ThreadPrefetchIterDataset(ds, prefetch_buffer_size=9))
        assert next(iterator) == 0
        while not os.path.exists(mark):
            time.sleep(0.001)
    """)
    assert (done.returncode, done.stdout, done.stderr) == (0, "finished", "")


def test_an_iterator_that_is_advanced_after_its_thread_has_ended_says_so():
    done = run("""
        import atexit

        iterator = None

        def too_late():
            try:
                while True:
                    next(iterator)
            except RuntimeError as error:
                print(error)

        atexit.register(too_late)  # Called after the threads have ended.
        ds = grain.MapDataset.range(100).repeat().to_iter_dataset()
        iterator = iter(grain.experimental.ThreadPrefetchIterDataset(ds, prefetch_buffer_size=9))
        next(iterator)
    """)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "The prefetch thread was stopped: the program is exiting.\n"


def test_a_call_into_a_device_is_waited_for_longer_than_other_code():
    done = run("""
        from grain._policy import current_policy, install_policy
        from grain.execution.device.placing import place_ahead

        install_policy(current_policy().replace(thread_join_seconds=0.01))

        class Placement:
            def place(self, element):
                if element == 3:
                    os.write(1, b"started ")
                    started.set()
                    time.sleep(0.2)
                    os.write(1, b"finished ")
                return element

        ds = grain.MapDataset.range(100).to_iter_dataset()
        iterator = iter(place_ahead(ds, Placement(), 4, 9))
        assert next(iterator) == 0
        assert started.wait(30)
    """)
    assert (done.returncode, done.stdout, done.stderr) == (0, "started finished ", "")


def test_no_call_into_a_device_starts_after_exit_has_waited():
    done = run("""
        import atexit
        from grain._policy import current_policy, install_policy
        from grain.execution.device.placing import place_ahead

        install_policy(current_policy().replace(thread_join_seconds=0.01))
        leave = threading.Event()

        class Held:
            def __len__(self):
                return 9
            def __getitem__(self, index):
                if index == 3:
                    started.set()
                    leave.wait()
                    # The element goes to a thread that has been stopped.
                return index

        class Placement:
            def place(self, element):
                os.write(1, b"%d " % element)
                return element

        def after_the_wait():
            leave.set()
            time.sleep(0.2)

        atexit.register(after_the_wait)  # Called after the wait for the threads.
        none = grain.ReadOptions(num_threads=0, prefetch_buffer_size=0)
        ds = grain.MapDataset.source(Held()).to_iter_dataset(none)
        iterator = iter(place_ahead(ds, Placement(), 0, 9))
        assert next(iterator) == 0
        assert started.wait(30)
    """)
    assert (done.returncode, done.stdout, done.stderr) == (0, "0 1 2 ", "")


@pytest.mark.parametrize("at_exit", ["frees", "is parked"])
def test_what_a_thread_frees_on_a_device_is_freed_completely_or_not_at_all(at_exit):
    done = run(
        """
        import atexit
        from grain._policy import current_policy, install_policy
        from grain.execution.thread_shutdown import start_thread

        install_policy(current_policy().replace(thread_join_seconds=0.01))
        leave = threading.Event()
        parked = AT_EXIT == "is parked"

        class OnDevice:
            def __del__(self):
                started.set()
                os.write(1, b"freeing ")
                time.sleep(0.2)
                os.write(1, b"freed ")

        def target(array):
            if parked:
                started.set()
                leave.wait()

        def after_the_wait():
            leave.set()
            thread.join()
            time.sleep(0.1)
            os.write(1, b"exits")

        atexit.register(after_the_wait)  # Called after the wait for the threads.
        thread = start_thread("frees", lambda: None, target, OnDevice())
        assert started.wait(30)
    """.replace("AT_EXIT", repr(at_exit))
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == ("exits" if at_exit == "is parked" else "freeing freed exits")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")
def test_a_fork_does_not_wait_for_calls_into_a_device_of_its_parent():
    done = run("""
        import warnings
        from grain.execution.device.placing import place_ahead

        warnings.simplefilter("ignore")  # Newer versions of Python warn of forks with threads.
        leave = threading.Event()

        class Placement:
            def place(self, element):
                if element == 3:
                    started.set()
                    leave.wait()
                return element

        iterator = iter(place_ahead(grain.MapDataset.range(9).to_iter_dataset(), Placement(), 4, 9))
        assert next(iterator) == 0
        assert started.wait(30)
        child = os.fork()
        if not child:
            sys.exit(7)  # Would wait for two minutes, longer than the test.
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        leave.set()
    """)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
