"""Conformance kit: check that a source, a transform or a plugin keeps its contract.

Example:
    report = grain.testing.run(grain.testing.Case(name="mine", make=make_source))
    print(report.table())

The same checks run under pytest (`parametrize`, `ConformanceSuite`) and on the command line
(`grain conformance NAME`); `CHECKS` lists them all. None of this needs pytest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from grain._lazy import lazy_names

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

# Lazy: pytest imports this package in every session, for its option.
__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "grain.dataset.resume_check": ["assert_equal_output_after_checkpoint"],
        "grain.testing.case": ["Case", "CaseKind", "ExpectedFailure", "FailureKind"],
        "grain.testing.pytest_support": [
            "BoundCheck",
            "ConformanceSuite",
            "bound_checks",
            "parametrize",
        ],
        "grain.testing.registry": ["CHECKS", "Check", "checks_for"],
        "grain.testing.report": ["Outcome", "Report", "Result", "badge_svg"],
        "grain.testing.runner": ["cases_of", "check_one", "plugin_case", "run", "run_plugin"],
        "grain.testing.subject": ["Subject"],
    },
)
