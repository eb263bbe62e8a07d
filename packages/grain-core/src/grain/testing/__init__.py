"""The conformance kit: whether a source, a transform or a plugin keeps its contract.

Example:
    report = grain.testing.run(grain.testing.Case(name="mine", make=make_source))
    print(report.table())

The same checks run under pytest (`parametrize`, `ConformanceSuite`) and on the command line
(`grain conformance NAME`); `CHECKS` lists them all. None of this needs pytest.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from grain.dataset.resume_check import assert_equal_output_after_checkpoint
    from grain.testing.case import Case, CaseKind, ExpectedFailure, FailureKind
    from grain.testing.catalogue import CHECKS, Check, checks_for
    from grain.testing.report import Outcome, Report, Result, badge_svg
    from grain.testing.running import cases_of, check_one, plugin_case, run, run_plugin
    from grain.testing.subject import Subject
    from grain.testing.suites import BoundCheck, ConformanceSuite, bound_checks, parametrize

__all__ = [
    "CHECKS",
    "BoundCheck",
    "Case",
    "CaseKind",
    "Check",
    "ConformanceSuite",
    "ExpectedFailure",
    "FailureKind",
    "Outcome",
    "Report",
    "Result",
    "Subject",
    "assert_equal_output_after_checkpoint",
    "badge_svg",
    "bound_checks",
    "cases_of",
    "check_one",
    "checks_for",
    "parametrize",
    "plugin_case",
    "run",
    "run_plugin",
]

# Imported when first asked for: pytest loads this package in every session, for its option.
_HOMES = {
    "assert_equal_output_after_checkpoint": "grain.dataset.resume_check",
    "Case": "grain.testing.case",
    "CaseKind": "grain.testing.case",
    "ExpectedFailure": "grain.testing.case",
    "FailureKind": "grain.testing.case",
    "CHECKS": "grain.testing.catalogue",
    "Check": "grain.testing.catalogue",
    "checks_for": "grain.testing.catalogue",
    "Outcome": "grain.testing.report",
    "Report": "grain.testing.report",
    "Result": "grain.testing.report",
    "badge_svg": "grain.testing.report",
    "cases_of": "grain.testing.running",
    "check_one": "grain.testing.running",
    "plugin_case": "grain.testing.running",
    "run": "grain.testing.running",
    "run_plugin": "grain.testing.running",
    "Subject": "grain.testing.subject",
    "BoundCheck": "grain.testing.suites",
    "ConformanceSuite": "grain.testing.suites",
    "bound_checks": "grain.testing.suites",
    "parametrize": "grain.testing.suites",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name)
    value = getattr(importlib.import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
