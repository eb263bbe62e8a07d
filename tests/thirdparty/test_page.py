"""The page about sources of other libraries shows every source, and every explanation with its program."""

from __future__ import annotations

import inspect

import pytest
from tools import thirdparty

from grain.testing import CHECKS

from .explanations import EXPLANATIONS
from .subjects import cases

NAMES = [case.name for case in cases()]
PAGE = thirdparty.PAGE.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", NAMES)
def test_the_page_has_a_row_for_every_source(name):
    assert f"\n| {name} | " in PAGE


def test_the_page_is_about_known_sources_only():
    rows = [line for line in PAGE.splitlines() if line.startswith("| ")]
    assert len(rows) == len(thirdparty.HEADER) + len(NAMES)


@pytest.mark.parametrize("each", EXPLANATIONS, ids=lambda each: f"{each.subject}-{each.checks[0]}")
def test_an_explanation_names_a_source_and_checks_and_its_program_is_on_the_page(each):
    assert each.subject in NAMES
    assert set(each.checks) <= {check.name for check in CHECKS}
    program = inspect.getsource(getattr(each.shows, "func", each.shows)).splitlines()
    assert len(program) <= 10
    assert all(line.strip() in PAGE for line in program)


def test_a_source_whose_library_is_not_installed_is_shown_as_not_run(capsys):
    verdict = thirdparty.not_run("zarr.Array")
    assert "not run" in verdict["row"]
    assert "conforms" not in verdict["row"]
    assert "NOT RUN" in capsys.readouterr().out


def test_a_failure_without_an_explanation_is_an_error_and_so_is_one_that_passes():
    class Report:
        case = cases()[0]
        root_failures = ()

    [explanation] = [each for each in EXPLANATIONS if each.subject == Report.case.name]
    with pytest.raises(thirdparty.Unexplained, match="pass now"):
        list(thirdparty.findings(Report, "", [explanation]))

    class Failure:
        check = "check_repeatable_read"
        reason = "it differs"

    Report.root_failures = (Failure,)
    with pytest.raises(thirdparty.Unexplained, match="no explanation for\ncheck_repeatable_read"):
        list(thirdparty.findings(Report, "", []))
