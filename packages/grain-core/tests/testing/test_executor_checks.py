"""The built-in executors pass every check of the area; each broken executor fails the right one."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytest

from grain.execution import InlineExecutor, ProcessExecutor, ThreadExecutor
from grain.testing import Case, Outcome, parametrize

from . import broken_executors as broken
from .cases import result_of


def case(name: str, make: Callable[[], Any], **options: Any) -> Case:
    return Case(name=name, kind="executor", make=make, **options)


@parametrize(
    [
        case("inline", InlineExecutor),
        case("threads", functools.partial(ThreadExecutor, 3)),
        case("processes", functools.partial(ProcessExecutor, 2)),
    ]
)
def test_a_built_in_executor_keeps_the_contract(conformance: Any) -> None:
    conformance()


# The pool and the check that must catch it.
BROKEN = {
    broken.Incomplete: "check_pool_members",
    broken.WithoutCosts: "check_pool_costs",
    broken.Reordering: "check_results_match_tickets",
    broken.Delaying: "check_submit_does_not_block",
    broken.Duplicating: "check_result_taken_once",
    broken.ComputingTwice: "check_affinity_order",
    broken.IgnoringAffinity: "check_affinity_order",
    broken.Losing: "check_no_result_lost",
    broken.Shrinking: "check_no_result_lost",
    broken.DyingInDefine: "check_definitions_precede_tasks",
    broken.ReadOnly: "check_results_writable",
    broken.ReusingMemory: "check_results_writable",
    broken.RaisingInClose: "check_close_is_final",
    broken.LyingAboutCapacity: "check_capacity_tasks_together",
    broken.Leaking: "check_close_releases_workers",
    broken.Forgetful: "check_task_errors_raised",
    broken.SharingArguments: "check_tasks_by_value",
}


@pytest.mark.parametrize("kind", BROKEN)
def test_a_broken_executor_is_caught_by_the_right_check(kind: Any, request: Any) -> None:
    name = BROKEN[kind]
    make = functools.partial(broken.Opens, kind)
    found = result_of(case(kind.__name__, make, check_timeout=30.0), name)
    for event in broken.Leaking.kept:
        event.set()
    assert found.outcome is Outcome.FAILED, found
    assert result_of(case("threads", functools.partial(ThreadExecutor, 2)), name).ok


def test_an_executor_that_shares_its_pool_is_caught() -> None:
    found = result_of(case("shared", broken.SinglePool), "check_executor_reusable")
    assert found.outcome is Outcome.FAILED


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (broken.Reordering, "check_fused_stream"),
        (broken.Reordering, "check_ordered_stream"),
        (broken.Forgetful, "check_fused_stream"),
    ],
)
def test_a_stream_shows_what_an_executor_breaks(kind: Any, name: str) -> None:
    found = result_of(case(kind.__name__, functools.partial(broken.Opens, kind)), name)
    assert found.outcome is (Outcome.FAILED if kind is broken.Reordering else Outcome.PASSED), found
