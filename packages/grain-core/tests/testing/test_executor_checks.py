"""The built-in executors pass every check of the area; each broken executor fails the right one."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytest

from grain.execution import InlineExecutor, ProcessExecutor, ThreadExecutor
from grain.testing import CHECKS, Case, Outcome, parametrize, run

from . import broken_executors as broken
from .cases import result_of


def case(name: str, make: Callable[[], Any], **options: Any) -> Case:
    return Case(name=name, kind="executor", make=make, **options)


GOOD = [
    case("inline", InlineExecutor),
    case("threads", functools.partial(ThreadExecutor, 3)),
    case("processes", functools.partial(ProcessExecutor, 2)),
]


@parametrize(GOOD)
def test_a_built_in_executor_keeps_the_contract(conformance: Any) -> None:
    conformance()


# The class of executors or pools, and the check that must catch it.
BROKEN = (
    (broken.Incomplete, "check_pool_members"),
    (broken.WithoutCosts, "check_pool_costs"),
    (broken.Reordering, "check_results_match_tickets"),
    (broken.Delaying, "check_submit_does_not_block"),
    (broken.Duplicating, "check_result_taken_once"),
    (broken.ComputingTwice, "check_affinity_order"),
    (broken.IgnoringAffinity, "check_affinity_order"),
    (broken.Losing, "check_no_result_lost"),
    (broken.Shrinking, "check_no_result_lost"),
    (broken.DyingInDefine, "check_definitions_precede_tasks"),
    (broken.ReadOnly, "check_results_writable"),
    (broken.ReusingMemory, "check_results_writable"),
    (broken.RaisingInClose, "check_close_is_final"),
    (broken.LyingAboutCapacity, "check_capacity_tasks_together"),
    (broken.Leaking, "check_close_releases_workers"),
    (broken.Forgetful, "check_task_errors_raised"),
    (broken.SharingArguments, "check_tasks_by_value"),
    (broken.SinglePool, "check_executor_reusable"),
    (broken.Reordering, "check_fused_stream"),
    (broken.Reordering, "check_ordered_stream"),
    (broken.Reordering, "check_failing_stream"),
    (broken.ReorderingStreams, "check_undivided_stream"),
)


def broken_case(kind: Any) -> Case:
    make = kind if hasattr(kind, "open") else functools.partial(broken.Opens, kind)
    return case(kind.__name__, make, check_timeout=12.0)


@pytest.mark.parametrize(
    ("kind", "name"), BROKEN, ids=[f"{kind.__name__}-{name}" for kind, name in BROKEN]
)
def test_a_broken_executor_is_caught_by_the_right_check(kind: Any, name: str) -> None:
    found = result_of(broken_case(kind), name)
    broken.Leaking.release()
    assert found.outcome is Outcome.FAILED, found
    assert result_of(case("threads", functools.partial(ThreadExecutor, 2)), name).ok


def test_every_check_of_executors_catches_a_broken_executor() -> None:
    of_executors = {check.name for check in CHECKS if check.area == "executor"}
    assert {name for _, name in BROKEN} == of_executors


@pytest.mark.parametrize("name", ["check_fused_stream", "check_failing_stream"])
def test_errors_of_elements_travel_in_results_that_no_pool_swallows(name: str) -> None:
    assert result_of(broken_case(broken.Forgetful), name).ok


def test_failures_of_an_executor_that_raises_in_close_follow_from_the_check_of_close() -> None:
    report = run(broken_case(broken.AlwaysRaisingInClose))
    [root] = report.root_failures
    assert root.check == "check_close_is_final"
    assert "close() raised RuntimeError('cannot be closed')" in root.reason
    assert len(report.failures) == len(report.results)
    for result in report.results:
        expected = "" if result == root else "check_close_is_final"
        assert report.cause(result) == expected, result


def test_an_error_of_a_check_is_not_replaced_by_one_of_close() -> None:
    class Both(broken.AlwaysRaisingInClose, broken.LyingAboutCapacity):
        """Lies about its capacity, and raises whenever it is closed."""

    result = result_of(broken_case(Both), "check_capacity_tasks_together")
    assert result.outcome is Outcome.FAILED
    assert result.reason.startswith("the pool's capacity is 5")
