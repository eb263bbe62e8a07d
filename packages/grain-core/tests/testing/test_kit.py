"""The kit itself: outcomes, what cannot be dropped, and the ways to run it."""

from __future__ import annotations

import functools
import json
import subprocess
import sys
import xml.etree.ElementTree as ET
from dataclasses import replace

import numpy as np
import pytest

import grain
from grain.plugins import Capability
from grain.testing import (
    CHECKS,
    Case,
    CaseKind,
    ConformanceSuite,
    Outcome,
    Report,
    Subject,
    bound_checks,
    check_one,
    checks_for,
    parametrize,
    run,
)
from grain.testing.compare import difference, overwrite
from grain.testing.former_names import CURRENT_NAMES

pytest_plugins = ["pytester"]

RANGE = Case(
    name="range",
    make=functools.partial(grain.sources.RangeDataSource, 0, 10, 2),
    elements=[0, 2, 4, 6, 8],
    capabilities={Capability.BATCHED_READ, Capability.COLUMNS, Capability.THREAD_SAFE},
)
DOUBLE = Case(name="double", kind="transform", make=lambda: lambda x: 2 * x, inputs=[1, 2])


def result(case, name):
    check = next(check for check in checks_for(case) if check.name == name)
    return check_one(check, Subject(case))


def test_a_good_source_is_in_order_and_nothing_is_missing():
    report = run(RANGE)
    assert report.ok
    assert report.missing == ()
    assert report.outcome("check_close_releases_resources") is Outcome.SKIPPED
    assert len(report.results) == len(checks_for(RANGE))


def test_every_check_has_a_sentence_and_a_cure():
    for check in CHECKS:
        assert check.contract.endswith("."), check.name
        assert len(check.fix) > 20, check.name
    assert len({check.name for check in CHECKS}) == len(CHECKS)


def test_wrong_elements_fail_and_say_which():
    wrong = result(replace(RANGE, elements=[0, 2, 5, 6, 8]), "check_expected_elements")
    assert wrong.outcome is Outcome.FAILED
    assert "element 2" in wrong.reason
    assert "expected 5, got 4" in wrong.reason


def test_an_expected_failure_is_in_order_and_gives_its_reason():
    case = replace(
        RANGE,
        elements=[1],
        expected_failures={"check_expected_elements": ("by-design", "it counts otherwise")},
    )
    failed = result(case, "check_expected_elements")
    assert failed.outcome is Outcome.EXPECTED_FAILURE
    assert failed.ok
    assert "it counts otherwise" in failed.reason


def test_an_unexpected_pass_fails():
    case = replace(RANGE, expected_failures={"check_repeatable_read": ("not-yet", "flaky")})
    passed = result(case, "check_repeatable_read")
    assert passed.outcome is Outcome.UNEXPECTED_PASS
    assert not passed.ok
    assert "expected_failures" in passed.fix


@pytest.mark.parametrize("name", ["no_such_check", "check_state_json_round_trip"])
def test_an_expected_failure_that_is_no_check_of_the_kind_fails(name):
    report = run(replace(DOUBLE, expected_failures={name: ("not-yet", "some day")}))
    assert not report.ok
    assert [failure.check for failure in report.failures] == [name]


def test_expecting_a_check_to_fail_that_does_not_apply_fails():
    case = replace(
        RANGE, expected_failures={"check_close_releases_resources": ("not-yet", "some day")}
    )
    assert result(case, "check_close_releases_resources").outcome is Outcome.FAILED


def test_a_report_without_one_of_its_checks_is_not_in_order():
    report = run(DOUBLE)
    assert report.ok
    dropped = Report(case=report.case, results=report.results[1:])
    assert dropped.missing == (report.results[0].check,)
    assert not dropped.ok
    assert "has no result" in dropped.table()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"name": ""}, "name"),
        ({"make": 3}, "make"),
        ({"kind": "no-kind"}, "no-kind"),
        ({"expected_failures": {"check_repeatable_read": "because"}}, "a kind and a reason"),
        ({"expected_failures": {"check_repeatable_read": ("not-yet", " ")}}, "reason"),
        ({"kind": "transform"}, "inputs"),
    ],
)
def test_a_case_refuses_what_makes_no_sense(options, words):
    with pytest.raises((TypeError, ValueError), match=words):
        Case(**{"name": "x", "make": list, **options})


def test_the_table_says_what_failed_why_and_how_to_mend_it():
    text = run(replace(DOUBLE, elements=[3, 4])).table()
    assert "check_expected_elements" in text
    assert "expected 3, got 2" in text
    assert "fix: " in text


def test_the_report_as_json_and_as_a_badge():
    report = run(DOUBLE)
    data = json.loads(report.to_json())
    assert data["ok"] is True
    assert {each["outcome"] for each in data["results"]} == {"passed"}
    assert all(each["contract"] for each in data["results"])
    good = ET.fromstring(report.badge_svg())
    assert (
        good.attrib["aria-label"]
        == f"grain conformance: {len(CHECKS_OF_DOUBLE)}/{len(CHECKS_OF_DOUBLE)}"
    )
    assert "failing" in run(replace(DOUBLE, elements=[3, 4])).badge_svg()


CHECKS_OF_DOUBLE = checks_for(DOUBLE)


def test_a_source_that_cannot_be_made_fails_and_does_not_raise():
    def make():
        raise OSError("no such data")

    report = run(Case(name="gone", make=make))
    assert not report.ok
    assert any("no such data" in failure.reason for failure in report.failures)


def test_an_empty_source_and_one_of_one_record_keep_the_contract():
    for stop in (0, 1):
        make = functools.partial(grain.sources.RangeDataSource, 0, stop, 1)
        report = run(replace(RANGE, make=make, elements=list(range(stop))))
        assert report.ok, report.table()


def test_a_suite_cannot_drop_its_checks():
    with pytest.raises(TypeError, match="expected_failures"):
        type("Suite", (ConformanceSuite,), {"cases": [DOUBLE], "test_contract": None})


class TestDouble(ConformanceSuite):
    cases = [DOUBLE]


@parametrize([DOUBLE])
def test_parametrize_makes_a_test_of_each_check(conformance):
    conformance()


def test_each_check_of_each_case_is_bound_once():
    names = [str(bound) for bound in bound_checks([RANGE, DOUBLE])]
    assert len(names) == len(set(names)) == len(checks_for(RANGE)) + len(checks_for(DOUBLE))


def test_under_pytest_failures_skips_and_expected_failures_are_told_apart(pytester):
    pytester.makepyfile(
        """
        import grain
        from grain.testing import Case, CaseKind, ConformanceSuite

        def make():
            return double

        def double(x):
            return 2 * x

        class TestDouble(ConformanceSuite):
            cases = [
                Case(
                    name="double", kind=CaseKind.TRANSFORM, make=make, inputs=[1], elements=[3],
                    expected_failures={"no_such_check": ("not-yet", "some day")},
                ),
                Case(
                    name="known", kind=CaseKind.TRANSFORM, make=make, inputs=[1], elements=[3],
                    expected_failures={"check_expected_elements": ("not-yet", "some day")},
                ),
            ]
        """
    )
    count = len(CHECKS_OF_DOUBLE)
    outcome = pytester.runpytest("-p", "no:cacheprovider")
    outcome.assert_outcomes(passed=2 * count - 2, failed=2, xfailed=1)


def test_the_pytest_plugin_loads_neither_the_kit_nor_a_dataset():
    program = (
        "import sys, grain.testing.pytest_plugin\n"
        "print([m for m in sys.modules if m.startswith('grain.testing.') and 'pytest' not in m])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


def test_the_kit_needs_no_pytest():
    program = (
        "import sys; sys.modules['pytest'] = None\n"
        "import grain.testing as t\n"
        "def double(x): return 2 * x\n"
        "def make(): return double\n"
        "case = t.Case(name='d', kind=t.CaseKind.TRANSFORM, make=make, inputs=[1], elements=[2])\n"
        "report = t.run(case)\n"
        "print(report.ok or report.table())\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "True"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (1, 1.0),
        (np.int64(1), np.int32(1)),
        (np.zeros(2), np.zeros(3)),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
        ([1, 2], (1, 2)),
        ({"a": [np.arange(3)]}, {"a": [np.arange(3) + 1]}),
        (b"a", b"b"),
        (None, 0),
    ],
)
def test_elements_that_differ_in_type_or_value_are_different(one, other):
    assert difference(one, other) is not None
    assert difference(one, one) is None


def test_nan_equals_itself():
    for value in (float("nan"), np.float32("nan"), np.array([np.nan, 1])):
        assert difference(value, value) is None


@pytest.mark.parametrize(
    "value",
    [
        np.zeros(3, np.float32),
        np.array([True, False]),
        np.array(["ab", "c"]),
        np.array(["2020-01-01"], "datetime64[D]"),
        np.array([None, "x"], object),
        np.zeros((), np.int8),
        [1],
        {"a": 1},
        bytearray(b"ab"),
    ],
)
def test_scribbling_changes_everything_that_can_be_written(value):
    before = value.copy() if not isinstance(value, bytearray) else bytearray(value)
    overwrite(value)
    assert difference(before, value) is not None


def test_the_reference_check_of_states_is_here_too():
    dataset = grain.MapDataset.range(4).to_iter_dataset()
    grain.testing.assert_equal_output_after_checkpoint(dataset)
    assert CaseKind.ITER_SOURCE in CHECKS[4].kinds


def test_former_names_of_checks_are_accepted_in_expected_failures_and_outcomes():
    case = replace(
        RANGE,
        elements=[1],
        expected_failures={"gives_the_expected_elements": ("by-design", "it counts otherwise")},
    )
    report = run(case)
    assert report.ok, report.table()
    assert report.outcome("gives_the_expected_elements") is Outcome.EXPECTED_FAILURE
    assert report.outcome("check_expected_elements") is Outcome.EXPECTED_FAILURE


def test_every_former_name_stands_for_a_check():
    assert set(CURRENT_NAMES.values()) <= {check.name for check in CHECKS}
