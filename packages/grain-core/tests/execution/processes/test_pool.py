import os
import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grain.execution.processes.error_report import WorkerError
from grain.execution.processes.pool import WorkerPool
from grain.execution.processes.pool_errors import PoolClosed


def test_results_come_by_ticket_in_whatever_order_they_are_asked_for(make_pool):
    pool = make_pool(lambda x: x * x)
    tickets = [pool.submit(x) for x in range(50)]
    for x in reversed(range(50)):
        assert pool.result(tickets[x]) == x * x


def test_a_job_is_started_once_in_each_worker_with_its_index_and_the_count(make_pool):
    class Job:
        def start(self, worker_index, worker_count):
            starts = [(worker_index, worker_count)]
            return lambda task: (os.getpid(), list(starts))

    pool = make_pool(Job(), num_workers=3)
    answers = [pool.result(pool.submit(None, affinity=i)) for i in range(3)]
    assert [starts for _, starts in answers] == [[(0, 3)], [(1, 3)], [(2, 3)]]
    assert [pid for pid, _ in answers] == pool.pids
    assert os.getpid() not in pool.pids
    assert pool.capacity == 3


def test_tasks_of_an_affinity_are_computed_there_and_in_order(make_pool):
    class Job:
        def start(self, worker_index, worker_count):
            seen = []

            def handle(task):
                seen.append(task)
                return worker_index, list(seen)

            return handle

    pool = make_pool(Job())
    tickets = [pool.submit(x, affinity=1) for x in range(4)]
    worker, seen = pool.result(tickets[3])
    assert seen == [0, 1, 2, 3]
    assert pool.result(tickets[0]) == (worker, [0])


def test_a_free_worker_takes_the_next_task_while_the_other_is_busy(make_pool, fifo):
    path = fifo.path

    def handle(task):
        if task == "wait":
            with open(path) as file:  # until the test writes
                return file.read()
        return os.getpid()

    pool = make_pool(handle)
    blocked = pool.submit("wait")
    others = [pool.result(pool.submit(x)) for x in range(20)]
    assert len(set(others)) == 1
    with open(path, "w") as file:
        file.write("go")
    assert pool.result(blocked) == "go"


def test_more_tasks_than_the_socket_takes_are_all_computed(make_pool):
    pool = make_pool(lambda x: x[0])
    padding = bytes(2000)
    tickets = [pool.submit((x, padding)) for x in range(3000)]
    assert [pool.result(ticket) for ticket in tickets] == list(range(3000))


def test_large_tasks_arrive_whole_wherever_they_are_sent(make_pool):
    pool = make_pool(lambda task: (task["key"], int(task["array"].sum()), task["array"].nbytes))
    array = np.arange(300_000)
    tickets = [
        pool.submit({"key": k, "array": array + k}, affinity=None if k % 2 else 0)
        for k in range(12)
    ]
    for k, ticket in enumerate(tickets):
        assert pool.result(ticket) == (k, int((array + k).sum()), array.nbytes)


def test_a_task_is_what_it_was_when_it_was_submitted(make_pool):
    pool = make_pool(lambda array: int(array[0]), num_workers=1, slot_bytes=0)
    array = np.zeros(1 << 20, np.uint8)
    tickets = []
    for value in range(8):
        array[:] = value
        tickets.append(pool.submit(array))
    assert [pool.result(ticket) for ticket in tickets] == list(range(8))


def test_a_result_can_be_taken_once(make_pool):
    pool = make_pool(lambda x: x)
    ticket = pool.submit(1)
    assert pool.result(ticket) == 1
    with pytest.raises(KeyError, match=f"Ticket {ticket} is not outstanding"):
        pool.result(ticket)
    with pytest.raises(KeyError, match="12345"):
        pool.result(12345)


def test_a_discarded_task_gives_no_result_and_is_skipped_if_not_started(make_pool, fifo):
    path = fifo.path

    class Job:
        def start(self, worker_index, worker_count):
            done = []

            def handle(task):
                if task == "wait":
                    with open(path) as file:
                        file.read()
                done.append(task)
                return list(done)

            return handle

    pool = make_pool(Job(), num_workers=1)
    first = pool.submit("wait")
    unwanted = [pool.submit(x) for x in range(5)]
    last = pool.submit("last")
    for ticket in unwanted:
        pool.discard(ticket)
    with open(path, "w"):
        pass
    assert pool.result(first) == ["wait"]
    assert pool.result(last) == ["wait", "last"]
    with pytest.raises(KeyError):
        pool.result(unwanted[0])
    pool.discard(unwanted[0])  # again, to no effect


def test_discarding_a_result_that_has_arrived_frees_its_slot(make_pool):
    pool = make_pool(lambda x: np.full(1 << 20, x, np.uint8), num_workers=1, slot_bytes=3 << 20)
    for x in range(20):
        unwanted, wanted = pool.submit(x), pool.submit(x + 1)
        assert pool.result(wanted)[0] == x + 1
        assert pool.ready(unwanted)
        pool.discard(unwanted)
    assert pool.lent_slots == 0


def test_ready_tells_whether_a_result_can_be_had_at_once(make_pool, fifo):
    path = fifo.path

    def handle(task):
        with open(path) as file:
            return file.read()

    pool = make_pool(handle, num_workers=1)
    ticket = pool.submit(None)
    assert not pool.ready(ticket)
    with open(path, "w") as file:
        file.write("now")
    while not pool.ready(ticket):
        os.sched_yield()
    assert pool.result(ticket) == "now"


def test_waiting_ends_after_the_time_given_and_the_result_is_not_lost(make_pool, fifo):
    path = fifo.path

    def handle(task):
        with open(path) as file:
            return file.read()

    pool = make_pool(handle, num_workers=1)
    ticket = pool.submit(None)
    with pytest.raises(TimeoutError):
        pool.result(ticket, timeout=0.01)
    with open(path, "w") as file:
        file.write("late")
    assert pool.result(ticket, timeout=60) == "late"


def test_an_exception_arrives_with_its_type_and_the_workers_traceback(make_pool):
    def fail_in_the_worker(task):
        error = ValueError("bad element", task)
        error.add_note("found in row 7")
        raise error

    pool = make_pool(fail_in_the_worker)
    with pytest.raises(ValueError, match="bad element") as caught:
        pool.result(pool.submit(3))
    assert caught.value.args == ("bad element", 3)
    assert caught.value.__notes__ == ["found in row 7"]
    text = str(caught.value.__cause__)
    assert "in fail_in_the_worker" in text
    assert "ValueError: ('bad element', 3)" in text
    assert " of 2" in text


def test_a_worker_goes_on_after_an_exception(make_pool):
    pool = make_pool(lambda x: 1 // x, num_workers=1)
    tickets = [pool.submit(x) for x in (0, 1)]
    with pytest.raises(ZeroDivisionError):
        pool.result(tickets[0])
    assert pool.result(tickets[1]) == 1


def test_exceptions_of_classes_that_only_main_knows_keep_their_type(make_pool):
    class OddError(Exception):
        pass

    def fail(task):
        raise OddError("odd")

    pool = make_pool(fail, num_workers=1)
    with pytest.raises(OddError, match="odd"):
        pool.result(pool.submit(0))


def test_an_exception_that_cannot_be_pickled_is_summarised(make_pool):
    def fail(task):
        class NeedsTwoError(Exception):
            def __init__(self, one, two):
                super().__init__(one)
                self.lock = threading.Lock()

        raise NeedsTwoError("one", "two")

    pool = make_pool(fail, num_workers=1)
    with pytest.raises(WorkerError, match="NeedsTwoError: one") as caught:
        pool.result(pool.submit(0))
    assert "raise NeedsTwoError" in str(caught.value.__cause__)


def test_an_exception_that_pickles_but_does_not_load_is_summarised(make_pool):
    def fail(task):
        class TwoArgumentsError(Exception):
            def __init__(self, one, two):
                super().__init__(one)

        raise TwoArgumentsError("one", "two")

    pool = make_pool(fail, num_workers=1)
    with pytest.raises(WorkerError, match="TwoArgumentsError: one"):
        pool.result(pool.submit(0))


def test_a_result_that_cannot_be_pickled_is_the_error_of_its_task(make_pool):
    pool = make_pool(lambda x: threading.Lock() if x else "fine", num_workers=1)
    tickets = [pool.submit(1), pool.submit(0)]
    with pytest.raises(TypeError, match="lock"):
        pool.result(tickets[0])
    assert pool.result(tickets[1]) == "fine"


def test_sys_exit_in_a_task_is_an_error_that_names_it(make_pool):
    def leave(task):
        raise SystemExit(5)

    pool = make_pool(leave, num_workers=1)
    with pytest.raises(WorkerError, match=r"sys\.exit\(5\) was called in a worker process"):
        pool.result(pool.submit(0))


def test_several_threads_may_wait_and_submit_at_once(make_pool):
    pool = make_pool(lambda x: x + 1)
    wrong = []

    def use(start):
        for x in range(start, start + 100):
            if pool.result(pool.submit(x)) != x + 1:
                wrong.append(x)

    threads = [threading.Thread(target=use, args=(1000 * n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_closing_wakes_a_thread_that_waits_for_a_result(make_pool, fifo):
    path = fifo.path

    def handle(task):
        with open(path, "w") as file:
            file.write("here")
        threading.Event().wait()

    pool = make_pool(handle, num_workers=1)
    raised = []

    def wait():
        try:
            pool.result(ticket)
        except PoolClosed as error:
            raised.append(error)

    ticket = pool.submit(None)
    assert fifo.read() == "here"
    thread = threading.Thread(target=wait)
    thread.start()
    pool.close()
    thread.join(60)
    assert len(raised) == 1


def test_a_closed_pool_says_so(make_pool):
    pool = make_pool(lambda x: x, num_workers=1)
    ticket = pool.submit(1)
    pool.close()
    pool.close()
    assert pool.closed
    with pytest.raises(PoolClosed):
        pool.submit(2)
    with pytest.raises(PoolClosed):
        pool.result(ticket)
    pool.discard(ticket)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_workers": 0}, "num_workers must be at least 1, got 0"),
        ({"max_restarts": -1}, "max_restarts must be at least 0, got -1"),
        ({"task_timeout": 0}, "task_timeout must be positive, or None for no limit; got 0"),
        ({"memory_limit": -5}, "memory_limit must be positive, or None for no limit; got -5"),
    ],
)
def test_numbers_are_checked(make_pool, options, message):
    with pytest.raises(ValueError, match=message):
        make_pool(lambda x: x, **options)


def test_several_pools_work_side_by_side(make_pool):
    pools = [make_pool(lambda x, n=n: (n, x), num_workers=1) for n in range(3)]
    tickets = [[pool.submit(x) for x in range(10)] for pool in pools]
    for n, pool in enumerate(pools):
        assert [pool.result(t) for t in tickets[n]] == [(n, x) for x in range(10)]


def test_a_pool_made_in_a_thread_outlives_that_thread(make_pool):
    made = []
    thread = threading.Thread(target=lambda: made.append(make_pool(lambda x: -x)))
    thread.start()
    thread.join()
    assert made[0].result(made[0].submit(4)) == -4


@settings(max_examples=20, deadline=None)
@given(data=st.data())
def test_any_mixture_of_calls_gives_each_ticket_its_own_result(shared_pool, data):
    outstanding = {}
    for _ in range(data.draw(st.integers(1, 40))):
        action = data.draw(st.sampled_from(["submit", "pin", "result", "discard"]))
        if action in ("submit", "pin") or not outstanding:
            size = data.draw(st.sampled_from([1, 100, 9_000, 40_000, 200_000]))
            value = np.full(size, len(outstanding) % 251, np.uint8)
            worker = data.draw(st.integers(0, 1)) if action == "pin" else None
            outstanding[shared_pool.submit(value, affinity=worker)] = value
            continue
        ticket = data.draw(st.sampled_from(sorted(outstanding)))
        value = outstanding.pop(ticket)
        if action == "result":
            np.testing.assert_array_equal(shared_pool.result(ticket), value)
        else:
            shared_pool.discard(ticket)
    for ticket, value in outstanding.items():
        np.testing.assert_array_equal(shared_pool.result(ticket), value)


@pytest.fixture(scope="module")
def shared_pool():
    class Echo:
        def start(self, worker_index, worker_count):
            return lambda task: task

    with WorkerPool(Echo(), num_workers=2) as pool:
        yield pool
