"""Checks as pytest tests."""

from __future__ import annotations

import subprocess
import sys

import pytest

from grain.testing import ConformanceSuite, bound_checks, checks_for, parametrize

from .cases import DOUBLE, RANGE

pytest_plugins = ["pytester"]


def test_a_suite_cannot_drop_its_checks():
    with pytest.raises(TypeError, match="expected_failures"):
        type("Suite", (ConformanceSuite,), {"cases": [DOUBLE], "test_contract": None})


class TestDouble(ConformanceSuite):
    cases = [DOUBLE]


@parametrize([DOUBLE])
def test_parametrize_makes_a_test_of_each_check(conformance):
    conformance()


def test_every_check_of_every_case_is_bound_once():
    names = [str(bound) for bound in bound_checks([RANGE, DOUBLE])]
    assert len(names) == len(set(names)) == len(checks_for(RANGE)) + len(checks_for(DOUBLE))


def test_pytest_reports_failures_and_expected_failures_of_checks(pytester):
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
    skipped = 3  # for random maps, batch functions and cases with invalid inputs
    count = len(checks_for(DOUBLE)) - skipped
    outcome = pytester.runpytest("-p", "no:cacheprovider")
    outcome.assert_outcomes(passed=2 * count - 2, failed=2, xfailed=1, skipped=2 * skipped)


def test_the_pytest_plugin_imports_neither_the_kit_nor_datasets():
    program = (
        "import sys, grain.testing.pytest_plugin\n"
        "print([m for m in sys.modules if m.startswith('grain.testing.') and 'pytest' not in m])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


def test_the_kit_works_without_pytest():
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
