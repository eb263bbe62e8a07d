"""The registry of checks, and their former names."""

from __future__ import annotations

from dataclasses import replace

from grain.testing import CHECKS, Outcome, run
from grain.testing.former_names import CURRENT_NAMES

from .cases import RANGE


def test_every_check_has_a_contract_and_a_fix():
    for check in CHECKS:
        assert check.contract.endswith("."), check.name
        assert len(check.fix) > 20, check.name
    assert len({check.name for check in CHECKS}) == len(CHECKS)


def test_former_names_are_accepted_in_expected_failures_and_outcomes():
    case = replace(
        RANGE,
        elements=[1],
        expected_failures={"gives_the_expected_elements": ("by-design", "it counts otherwise")},
    )
    report = run(case)
    assert report.ok, report.table()
    assert report.outcome("gives_the_expected_elements") is Outcome.EXPECTED_FAILURE
    assert report.outcome("check_expected_elements") is Outcome.EXPECTED_FAILURE


def test_every_former_name_maps_to_a_check():
    assert set(CURRENT_NAMES.values()) <= {check.name for check in CHECKS}
