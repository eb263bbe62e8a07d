"""The executor as a value: its checks, and that it needs no Ray."""

from __future__ import annotations

import pickle
import re
import subprocess
import sys

import pytest

import grain_ray
from grain_ray.cluster import ClusterOptions
from grain_ray.demand import DemandMonitor


def test_importing_the_package_and_making_an_executor_loads_no_ray():
    program = (
        "import sys, grain_ray\n"
        "grain_ray.RayExecutor(address='auto', num_workers=2)\n"
        "grain_ray.ShardByRayTrain, dir(grain_ray)\n"
        "assert not [name for name in sys.modules if name.split('.')[0] == 'ray']\n"
    )
    subprocess.run([sys.executable, "-W", "error", "-c", program], check=True, timeout=60)


def test_an_executor_is_a_value():
    executor = grain_ray.RayExecutor(address="auto", num_workers=4, max_workers=8)
    assert pickle.loads(pickle.dumps(executor)) == executor
    assert executor.capacity == 4
    assert executor.workers_between == (4, 8)
    assert executor.costs.block_seconds == 0.1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"num_workers": 0}, "num_workers must be a positive integer, got 0"),
        ({"num_workers": True}, "num_workers must be a positive integer, got True"),
        ({"num_workers": 3, "max_workers": 2}, "got 3, which is not between 3 and 2"),
        ({"num_workers": 1, "min_workers": 2}, "got 1, which is not between 2 and 1"),
        ({"max_bytes": 0}, "max_bytes must be a positive integer, got 0"),
        ({"address": ""}, "address must be a text such as 'auto'"),
        ({"address": "ray://head:10001"}, "one of Ray's client"),
        ({"fallback": "threads"}, "fallback must be one of (None, 'processes'), got 'threads'"),
        ({"ray_remote_args": {"max_restarts": 1}}, "ray_remote_args contains ['max_restarts']"),
    ],
)
def test_a_wrong_argument_is_named(arguments, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        grain_ray.RayExecutor(**arguments)


def test_an_address_is_never_guessed(monkeypatch):
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    with pytest.raises(ValueError, match="could join a stale one"):
        grain_ray.RayExecutor(num_workers=1).open(object())


def test_an_unknown_name_of_the_package_is_an_error():
    with pytest.raises(AttributeError, match="no attribute 'Ray'"):
        grain_ray.Ray  # noqa: B018


def test_options_of_a_cluster_are_picklable():
    options = ClusterOptions(address="auto", runtime_env={"pip": ["x"]})
    assert pickle.loads(pickle.dumps(options)) == options


class Clock:
    def __init__(self):
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.mark.parametrize(("share", "wanted"), [(0.5, 5), (0.05, 4), (0.0, 4)])
def test_workers_are_added_while_the_consumer_waits(share, wanted):
    clock = Clock()
    monitor = DemandMonitor(2, 8, clock)
    with monitor.waiting():
        clock.now += 10 * share
    clock.now += 10 * (1 - share)
    assert monitor.wanted(4) == wanted


def test_workers_are_removed_slowly_and_within_limits():
    clock = Clock()
    monitor = DemandMonitor(2, 8, clock)
    counts, count = [], 3
    for _ in range(24):
        clock.now += 10
        count = monitor.wanted(count)
        counts.append(count)
    assert counts[:5] == [3] * 5
    assert counts[5:] == [2] * 19
    with monitor.waiting():
        clock.now += 10
    assert monitor.wanted(8) == 8


def test_a_fixed_number_of_workers_stays():
    clock = Clock()
    monitor = DemandMonitor(4, 4, clock)
    with monitor.waiting():
        clock.now += 100
    assert monitor.wanted(4) == 4
