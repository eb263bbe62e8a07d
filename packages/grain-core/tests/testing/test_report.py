"""Reports as tables, JSON and badges."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from dataclasses import replace

from grain.testing import Outcome, Report, checks_for, run

from .cases import DOUBLE, RANGE


def test_a_report_without_one_of_its_checks_is_not_ok():
    report = run(DOUBLE)
    assert report.ok
    dropped = Report(case=report.case, results=report.results[1:])
    assert dropped.missing == (report.results[0].check,)
    assert not dropped.ok
    assert "has no result" in dropped.table()


def test_the_table_shows_failed_checks_with_reason_and_fix():
    text = run(replace(DOUBLE, elements=[3, 4])).table()
    assert "check_expected_elements" in text
    assert "expected 3, got 2" in text
    assert "fix: " in text


def test_a_report_can_be_written_as_json_and_as_a_badge():
    report = run(DOUBLE)
    data = json.loads(report.to_json())
    assert data["ok"] is True
    assert {each["outcome"] for each in data["results"]} == {"passed"}
    assert all(each["contract"] for each in data["results"])
    good = ET.fromstring(report.badge_svg())
    assert (
        good.attrib["aria-label"]
        == f"grain conformance: {len(checks_for(DOUBLE))}/{len(checks_for(DOUBLE))}"
    )
    assert "failing" in run(replace(DOUBLE, elements=[3, 4])).badge_svg()


def test_the_badge_counts_only_checks_that_ran():
    report = run(RANGE)
    ran = [each for each in report.results if each.outcome is not Outcome.SKIPPED]
    assert len(ran) < len(report.results)
    assert f"grain conformance: {len(ran)}/{len(ran)}" in report.badge_svg()
