"""Reports as tables, JSON and badges."""

from __future__ import annotations

import json
import threading
import xml.etree.ElementTree as ET
from dataclasses import replace

from grain.testing import Case, Outcome, Report, run

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
    ran = [each for each in data["results"] if each["outcome"] != "skipped"]
    assert {each["outcome"] for each in ran} == {"passed"}
    assert all(each["contract"] for each in data["results"])
    good = ET.fromstring(report.badge_svg())
    assert good.attrib["aria-label"] == f"grain conformance: {len(ran)}/{len(ran)}"
    assert "failing" in run(replace(DOUBLE, elements=[3, 4])).badge_svg()


def test_the_badge_counts_only_checks_that_ran():
    report = run(RANGE)
    ran = [each for each in report.results if each.outcome is not Outcome.SKIPPED]
    assert len(ran) < len(report.results)
    assert f"grain conformance: {len(ran)}/{len(ran)}" in report.badge_svg()


class Locked:
    """A source that cannot be pickled."""

    def __init__(self) -> None:
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return 3

    def __getitem__(self, index: int) -> int:
        return range(3)[index]


def test_failures_that_follow_from_another_are_marked_and_shown_in_one_line():
    report = run(Case(name="locked", make=Locked, capabilities=()))
    causes = {result.check: report.cause(result) for result in report.failures}
    assert causes["check_pickle_new_instance"] == ""
    assert causes["check_pickle_across_processes"] == "check_pickle_new_instance"
    assert "check_pickle_new_instance" in {result.check for result in report.root_failures}
    text = report.table()
    assert "failed, may follow from check_pickle_new_instance" in text
    assert text.count("contract: ") == len(report.root_failures)
    [one] = [r for r in report.as_data()["results"] if r["check"] == "check_standard_pickle"]
    assert one["may_follow_from"] == "check_pickle_new_instance"
