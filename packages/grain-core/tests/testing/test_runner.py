"""Running checks: outcomes, skips, samples of long sources, and time limits."""

from __future__ import annotations

import functools
import threading
from dataclasses import replace
from typing import Any

import pytest

import grain
from grain.testing import (
    CHECKS,
    Case,
    CaseKind,
    Outcome,
    Report,
    Subject,
    check_one,
    checks_for,
    run,
)

from .cases import DOUBLE, RANGE, result_of


def test_a_good_source_is_ok_and_no_check_is_missing():
    report = run(RANGE)
    assert report.ok
    assert report.missing == ()
    assert report.outcome("check_close_releases_resources") is Outcome.SKIPPED
    assert len(report.results) == len(checks_for(RANGE))


def test_a_wrong_element_fails_and_is_named():
    wrong = result_of(replace(RANGE, elements=[0, 2, 5, 6, 8]), "check_expected_elements")
    assert wrong.outcome is Outcome.FAILED
    assert "element 2" in wrong.reason
    assert "expected 5, got 4" in wrong.reason
    assert "either the case is wrong, or the source returns wrong elements" in wrong.fix


def test_an_expected_failure_is_ok_and_shows_its_reason():
    case = replace(
        RANGE,
        elements=[1],
        expected_failures={"check_expected_elements": ("by-design", "it counts otherwise")},
    )
    failed = result_of(case, "check_expected_elements")
    assert failed.outcome is Outcome.EXPECTED_FAILURE
    assert failed.ok
    assert "it counts otherwise" in failed.reason


def test_an_unexpected_pass_fails():
    case = replace(RANGE, expected_failures={"check_repeatable_read": ("not-yet", "flaky")})
    passed = result_of(case, "check_repeatable_read")
    assert passed.outcome is Outcome.UNEXPECTED_PASS
    assert not passed.ok
    assert "expected_failures" in passed.fix


@pytest.mark.parametrize("name", ["no_such_check", "check_state_json_round_trip"])
def test_an_unknown_name_in_expected_failures_fails(name):
    report = run(replace(DOUBLE, expected_failures={name: ("not-yet", "some day")}))
    assert not report.ok
    assert [failure.check for failure in report.failures] == [name]


def test_expecting_a_skipped_check_to_fail_fails():
    case = replace(
        RANGE, expected_failures={"check_close_releases_resources": ("not-yet", "some day")}
    )
    assert result_of(case, "check_close_releases_resources").outcome is Outcome.FAILED


def test_a_source_that_cannot_be_made_fails_without_raising():
    def make():
        raise OSError("no such data")

    report = run(Case(name="gone", make=make))
    assert not report.ok
    assert any("no such data" in failure.reason for failure in report.failures)


def test_an_empty_source_and_a_source_of_one_record_pass():
    for stop in (0, 1):
        make = functools.partial(grain.sources.RangeDataSource, 0, stop, 1)
        report = run(replace(RANGE, make=make, elements=list(range(stop))))
        assert report.ok, report.table()


def test_the_checkpoint_assertion_of_the_reference_is_exported():
    dataset = grain.MapDataset.range(4).to_iter_dataset()
    grain.testing.assert_equal_output_after_checkpoint(dataset)
    assert CaseKind.ITER_SOURCE in CHECKS[4].kinds


@pytest.mark.parametrize(
    ("changes", "check"),
    [
        ({"elements": None}, "check_expected_elements"),
        ({}, "check_pickle_growth"),
        (
            {"make": functools.partial(grain.sources.RangeDataSource, 0, 0, 1), "elements": []},
            "check_loader_workers",
        ),
    ],
)
def test_a_check_with_nothing_to_check_is_skipped_with_a_reason(changes, check):
    case = replace(RANGE, **changes)
    skipped = result_of(case, check)
    assert skipped.outcome is Outcome.SKIPPED
    assert skipped.reason
    expecting = replace(case, expected_failures={check: ("not-yet", "some day")})
    assert result_of(expecting, check).outcome is Outcome.FAILED


def test_a_transform_that_may_mutate_its_input_skips_that_check():
    case = replace(DOUBLE, mutates_input=True)
    assert result_of(case, "check_input_not_mutated").outcome is Outcome.SKIPPED


def test_a_source_of_a_trillion_records_is_sampled_and_the_report_says_so():
    make = functools.partial(grain.sources.RangeDataSource, 0, 10**12, 1)
    report = run(replace(RANGE, make=make, elements=range(10**12), length=10**12))
    assert report.ok, report.table()
    assert "64 of 1,000,000,000,000 records" in report.notes[0]
    assert report.notes[0] in report.table()
    assert report.as_data()["notes"] == list(report.notes)


def test_elements_of_a_sampled_source_are_compared_at_their_indices():
    make = functools.partial(grain.sources.RangeDataSource, 0, 1000, 1)
    case = replace(RANGE, make=make, elements=range(1000))
    assert result_of(case, "check_expected_elements").outcome is Outcome.PASSED
    wrong = replace(case, elements=[*range(999), 0])
    assert "expected 0, got 999" in result_of(wrong, "check_expected_elements").reason
    short = replace(case, elements=range(999))
    assert "expected 999 elements, got 1000" in result_of(short, "check_expected_elements").reason


def endless() -> grain.IterDataset:
    return grain.MapDataset.range(10).repeat().to_iter_dataset()


def test_only_the_start_of_an_endless_stream_is_read_and_the_report_says_so():
    report = run(Case(name="endless", kind=CaseKind.ITER_SOURCE, make=endless))
    assert report.ok, report.table()
    assert report.outcome("check_exhaustion_is_final") is Outcome.SKIPPED
    assert "only the first" in report.notes[0]


class Hanging(grain.sources.RangeDataSource):
    """A source that hangs at one index."""

    def __getitem__(self, index: Any) -> Any:
        if index == 3:
            threading.Event().wait()
        return super().__getitem__(index)


def test_a_check_that_hangs_fails_with_its_stack_and_ends_the_run():
    make = functools.partial(Hanging, 0, 5, 1)
    report = run(replace(RANGE, make=make, elements=None, check_timeout=0.2))
    hung, *others = report.failures
    assert hung.check == "check_all_indices_readable"
    assert hung.outcome is Outcome.FAILED
    assert "in __getitem__\n" in hung.reason
    assert "check_timeout" in hung.fix
    assert {each.outcome for each in others} == {Outcome.NOT_RUN}
    assert all(hung.check in each.reason for each in others)
    assert not report.missing


def test_a_check_that_hangs_does_not_block_other_cases():
    case = replace(RANGE, make=functools.partial(Hanging, 0, 5, 1), check_timeout=0.2)
    assert not result_of(case, "check_all_indices_readable").ok
    assert result_of(RANGE, "check_all_indices_readable").ok


class Unpicklable(Hanging):
    """A source that hangs when it is pickled, and otherwise does not."""

    def __getitem__(self, index: Any) -> Any:
        return grain.sources.RangeDataSource.__getitem__(self, index)

    def __getstate__(self) -> Any:
        threading.Event().wait()


def subject_near_the_end(case: Case, longest_check: float) -> Subject:
    """Return a subject with one second of the budget left."""
    subject = Subject(case)
    subject.seconds = case.budget - 1
    subject.longest_check = longest_check
    return subject


def test_a_check_that_the_end_of_the_budget_interrupts_is_not_run_and_did_not_fail():
    # An earlier check took longer than the rest of the budget, so nothing shows that this one hangs.
    make = functools.partial(Hanging, 0, 5, 1)
    case = replace(RANGE, make=make, elements=None)
    subject = subject_near_the_end(case, longest_check=2)
    result = check_one(CHECKS[0], subject)
    assert result.outcome is Outcome.NOT_RUN
    assert "time budget of 300 s was used up" in result.reason
    assert "in __getitem__\n" in result.reason
    assert "with index = 3" in result.reason
    assert "--budget" in result.fix
    assert not subject.hung_check
    others = [check_one(check, subject) for check in checks_for(case)[1:]]
    assert {each.outcome for each in others} == {Outcome.NOT_RUN, Outcome.SKIPPED}
    assert not [each for each in others if "hangs" in each.reason]
    report = Report(case=case, results=(result, *others))
    assert report.root_failures == (result,)
    assert {report.cause(each) for each in report.results} == {""}


def test_a_read_that_never_returns_is_named_although_the_budget_ends_the_check():
    case = replace(RANGE, make=functools.partial(Hanging, 0, 5, 1), elements=None)
    subject = subject_near_the_end(case, longest_check=0.01)
    result = check_one(CHECKS[0], subject)
    assert result.outcome is Outcome.FAILED
    assert "it hangs in" in result.reason
    assert "in __getitem__\n" in result.reason
    assert "with index = 3" in result.reason
    assert "budget" in result.fix
    after = check_one(CHECKS[1], subject)
    assert (after.outcome, after.follows) == (Outcome.NOT_RUN, result.check)


def test_a_source_that_hangs_in_its_pickle_is_named_within_the_budget():
    make = functools.partial(Unpicklable, 0, 5, 1)
    report = run(replace(RANGE, make=make, elements=[0, 1, 2, 3, 4], budget=2.0))
    [root] = report.root_failures
    assert root.check == "check_pickle_new_instance"
    assert "in __getstate__\n" in root.reason
    not_run = [each for each in report.results if each.outcome is Outcome.NOT_RUN]
    assert {report.cause(each) for each in not_run} == {root.check}


def test_checks_beyond_the_time_budget_are_not_run():
    subject = Subject(RANGE)
    subject.seconds = RANGE.budget
    result = check_one(CHECKS[0], subject)
    assert result.outcome is Outcome.NOT_RUN
    assert not result.ok
    assert "time budget of 300 s" in result.reason
