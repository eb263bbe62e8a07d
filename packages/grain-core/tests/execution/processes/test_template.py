"""The process that forks the workers of all pools: when it is used again, and when it is not."""

import gc
import importlib
import os
import signal
import sys
import threading
import types

import pytest

import grain
from grain._policy import use_policy
from grain.execution.processes.template_client import end_idle_template, start_early

from ...helpers.processes import finish

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="workers are forked on Linux only")


@pytest.fixture(autouse=True)
def no_template():
    """Starts and ends each test without a template."""
    end_idle_template()
    yield
    end_idle_template()


@pytest.fixture
def template_of(make_pool):
    """Opens and closes a pool; returns the process that has forked its workers."""

    def template(num_workers=1):
        pool = make_pool(lambda task: os.getppid(), num_workers=num_workers)
        found = pool.result(pool.submit(None))
        pool.close()
        return found

    return template


def test_later_pools_use_the_template_of_the_first(template_of):
    first = template_of()
    assert first != os.getpid()
    assert template_of(3) == first
    assert template_of() == first


def test_a_template_that_was_started_early_serves_the_first_pool(template_of):
    start_early()
    with open(f"/proc/self/task/{os.getpid()}/children") as file:
        children = {int(word) for word in file.read().split()}
    assert template_of() in children


def test_no_template_is_started_where_workers_are_not_forked(make_pool, census):
    before = census()
    with use_policy(fork_workers=False):
        start_early()
        assert not census().beyond(before)
        pool = make_pool(lambda task: os.getppid(), num_workers=1)
        assert pool.result(pool.submit(None)) == os.getpid()


def test_pools_of_several_threads_share_one_template(make_pool):
    found, errors = [], []

    def use():
        try:
            for _ in range(3):
                pool = make_pool(lambda task: os.getppid(), num_workers=2)
                found.append(pool.result(pool.submit(None)))
                pool.close()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=use) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    assert len(found) == 12
    assert len(set(found)) == 1


def test_workers_have_the_environment_and_directory_of_now(
    make_pool, template_of, monkeypatch, tmp_path
):
    first = template_of()
    monkeypatch.setenv("MY_SETTING", "new")
    monkeypatch.chdir(tmp_path)
    pool = make_pool(lambda task: (os.environ["MY_SETTING"], os.getcwd(), os.getppid()))
    *seen, template = pool.result(pool.submit(None))
    assert seen == ["new", str(tmp_path)]
    assert template != first


def test_workers_find_modules_where_the_consumer_finds_them_now(
    make_pool, template_of, monkeypatch, tmp_path
):
    first = template_of()
    (tmp_path / "only_here_now.py").write_text("VALUE = 42\n")
    monkeypatch.syspath_prepend(str(tmp_path))

    def handle(task):
        import only_here_now

        return only_here_now.VALUE, os.getppid()

    pool = make_pool(handle, num_workers=1)
    assert pool.result(pool.submit(None)) == (42, first)


def test_workers_write_to_the_output_of_now(script, tmp_path):
    process = script(
        """
        def write(task):
            print(task, flush=True)

        def use(text):
            with WorkerPool(Apply(write), num_workers=1) as pool:
                pool.result(pool.submit(text))

        use("first")
        before = os.dup(1)
        os.dup2(os.open(sys.argv[1], os.O_CREAT | os.O_WRONLY), 1)
        use("second")
        os.dup2(before, 1)
        use("third")
        """,
        tmp_path / "other",
    )
    assert finish(process) == (0, "first\nthird\n", "")
    assert (tmp_path / "other").read_text() == "second\n"


def test_workers_draw_different_random_numbers(make_pool):
    def handle(task):
        import random

        import numpy as np

        return random.random(), np.random.random()  # noqa: NPY002 - it has global state

    drawn = []
    for _ in range(2):
        pool = make_pool(handle, num_workers=2)
        drawn += [pool.result(pool.submit(None, affinity=worker)) for worker in range(2)]
        pool.close()
    assert len({number for numbers in drawn for number in numbers}) == 8


def test_an_idle_template_exits_and_the_next_pool_starts_another(template_of, wait_until_gone):
    with use_policy(idle_template_seconds=0.01):
        first = template_of()
        wait_until_gone(first)
        assert template_of() != first


def test_a_template_with_workers_does_not_exit(make_pool):
    with use_policy(idle_template_seconds=0.001):
        pool = make_pool(lambda task: os.getppid(), num_workers=1, max_restarts=3)
        first = pool.result(pool.submit(None))
        for _ in range(50):
            assert pool.result(pool.submit(None)) == first


def test_a_template_that_was_killed_is_replaced_for_the_next_pool(template_of, wait_until_gone):
    first = template_of()
    os.kill(first, signal.SIGKILL)
    wait_until_gone(first)
    assert template_of() != first


@pytest.mark.filterwarnings("ignore:Worker 0 of 1")
def test_the_workers_of_a_template_that_was_killed_are_still_replaced(make_pool, wait_until_gone):
    pool = make_pool(lambda task: (os.getpid(), os.getppid()), num_workers=1, max_restarts=3)
    worker, template = pool.result(pool.submit(None))
    os.kill(template, signal.SIGKILL)
    wait_until_gone(template)
    os.kill(worker, signal.SIGKILL)
    while pool.restarts == 0:
        pool.wait([pool.submit(None)], timeout=10)
    assert pool.result(pool.submit(None))[0] != worker


def test_a_fork_of_the_consumer_starts_a_template_of_its_own(script):
    process = script("""
        def use():
            with WorkerPool(Apply(lambda task: os.getppid()), num_workers=1) as pool:
                return pool.result(pool.submit(None))

        first = use()
        child = os.fork()
        other = use()
        if child:
            assert other == first
            assert os.waitpid(child, 0)[1] == 0
        else:
            assert other != first
        """)
    assert finish(process) == (0, "", "")


def test_a_program_that_ends_takes_its_idle_template_with_it(script, wait_until_gone):
    process = script("""
        with WorkerPool(Apply(lambda task: os.getppid()), num_workers=1) as pool:
            print(pool.result(pool.submit(None)))
        """)
    code, out, err = finish(process)
    assert (code, err) == (0, "")
    wait_until_gone(int(out))


@pytest.mark.parametrize("locked", ["the kept template", "a template in use"])
def test_garbage_that_is_collected_while_a_template_is_locked_blocks_nothing(
    wait_until_gone, monkeypatch, locked
):
    """A finalizer ends workers through the template, also in the thread that holds its lock."""
    client = importlib.import_module("grain.execution.processes.template_client")
    context, dumps = client.inherited_context, client.marshal.dumps

    def collect_first(function):
        def call(*arguments):
            gc.collect()
            return function(*arguments)

        return call

    def process_id(element):
        return os.getpid()

    ds = grain.MapDataset.range(9).map(process_id).to_iter_dataset().mp_prefetch(num_workers=1)
    gc.disable()
    try:
        garbage = [iter(ds)]
        garbage.append(garbage)
        pid = next(garbage[0])
        del garbage
        if locked == "the kept template":
            monkeypatch.setattr(client, "inherited_context", collect_first(context))
        else:
            marshal = types.SimpleNamespace(dumps=collect_first(dumps), loads=client.marshal.loads)
            monkeypatch.setattr(client, "marshal", marshal)
        with iter(ds) as iterator:
            assert next(iterator) != pid
    finally:
        gc.enable()
    wait_until_gone(pid)
