"""Processor time and counters include the children of this process."""

from __future__ import annotations

import subprocess
import sys

import pytest
from benchmarks import cases, cost, measure
from benchmarks.cost import Cost, Counter
from benchmarks.peers import grain_api

# Uses the processor until it is killed.
BUSY = "while True: pass"


def wait_for(reached) -> None:
    """Return when a condition holds; the time limit of the test ends a wait for ever."""
    while not reached():
        pass


@pytest.fixture
def busy_child():
    with subprocess.Popen([sys.executable, "-c", BUSY]) as process:
        yield process
        process.kill()


def test_processor_time_includes_live_and_ended_children(busy_child):
    (pid,) = [p for p in measure.descendants() if p == busy_child.pid]
    start, own = cost.processor_seconds(), cost.time.process_time()

    def of_child() -> float:
        return (cost.processor_seconds() - start) - (cost.time.process_time() - own)

    wait_for(lambda: of_child() > 0.1)
    busy_child.kill()
    busy_child.wait()
    assert pid not in measure.descendants()
    # The system counts time of ended processes in coarser units.
    assert of_child() > 0.08


def test_a_counter_counts_this_process_and_children_it_starts():
    counter = Counter(cost.SOFTWARE_TASK_CLOCK)
    if counter.read() is None:
        pytest.skip("this machine does not allow counters")
    with subprocess.Popen([sys.executable, "-c", BUSY]) as process:
        start, own = counter.read(), cost.time.process_time_ns()
        wait_for(
            lambda: counter.read() - start > 1.5 * (cost.time.process_time_ns() - own) + 5 * 10**7
        )
        process.kill()
    counter.close()
    assert counter.read() is None


def test_a_counter_that_the_machine_lacks_counts_nothing():
    counter = Counter((2**31, 0))
    assert counter.read() is None
    counter.close()


def test_costs_subtract_and_divide():
    difference = Cost(3.0, 5.0, 700) - Cost(1.0, 1.0, 100)
    assert difference == Cost(2.0, 4.0, 600)
    assert difference.per(2) == Cost(1.0, 2.0, 300)
    assert (Cost(3.0, 5.0, 700) - Cost(1.0, 1.0)).per(2) == Cost(1.0, 2.0, None)


@pytest.mark.parametrize("name", ["range_batch", "first_batch", "import", "length_1e6"])
def test_the_cost_of_a_case_is_measured_for_a_fixed_number_of_outputs(name, files):
    case = cases.BY_NAME[name]
    taken = []

    def make():
        for batch in grain_api.programs(files)[name]():
            taken.append(1)
            yield batch

    found = measure.measure_cost(case, make, "import json", 40, Counter())
    assert found.processor > 0
    assert found.elapsed > 0
    expected = {"import": 0, "first_batch": 1, "length_1e6": case.outputs}
    assert len(taken) == expected.get(
        name, measure.CHECKED_OUTPUTS + int(40 * measure.WARM_UP) + 40
    )
