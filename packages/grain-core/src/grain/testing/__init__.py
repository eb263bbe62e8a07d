"""Conformance kit: check that a source, a transform or a plugin keeps its contract.

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
    from grain.testing.pytest_support import BoundCheck, ConformanceSuite, bound_checks, parametrize
    from grain.testing.registry import CHECKS, Check, checks_for
    from grain.testing.report import Outcome, Report, Result, badge_svg
    from grain.testing.runner import cases_of, check_one, plugin_case, run, run_plugin
    from grain.testing.subject import Subject

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

# Imported on first use: pytest loads this package in every session, for its option.
_HOMES = {
    "assert_equal_output_after_checkpoint": "grain.dataset.resume_check",
    "Case": "grain.testing.case",
    "CaseKind": "grain.testing.case",
    "ExpectedFailure": "grain.testing.case",
    "FailureKind": "grain.testing.case",
    "CHECKS": "grain.testing.registry",
    "Check": "grain.testing.registry",
    "checks_for": "grain.testing.registry",
    "Outcome": "grain.testing.report",
    "Report": "grain.testing.report",
    "Result": "grain.testing.report",
    "badge_svg": "grain.testing.report",
    "cases_of": "grain.testing.runner",
    "check_one": "grain.testing.runner",
    "plugin_case": "grain.testing.runner",
    "run": "grain.testing.runner",
    "run_plugin": "grain.testing.runner",
    "Subject": "grain.testing.subject",
    "BoundCheck": "grain.testing.pytest_support",
    "ConformanceSuite": "grain.testing.pytest_support",
    "bound_checks": "grain.testing.pytest_support",
    "parametrize": "grain.testing.pytest_support",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name)
    value = getattr(importlib.import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
