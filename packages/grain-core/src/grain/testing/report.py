"""Reports: one result per check, as a table, as JSON and as a badge."""

from __future__ import annotations

import enum
import json
import textwrap
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from html import escape
from typing import Any

from grain.testing.case import Case
from grain.testing.causes import cause_of
from grain.testing.former_names import current_name
from grain.testing.registry import checks_for


class Outcome(enum.StrEnum):
    """The outcome of a check."""

    PASSED = "passed"
    """The contract holds."""

    FAILED = "failed"
    """The contract is broken, or the case names an unknown check."""

    EXPECTED_FAILURE = "expected failure"
    """The contract is broken, for a reason that the case states."""

    UNEXPECTED_PASS = "unexpected pass"
    """The contract holds although the case lists the check as an expected failure."""

    SKIPPED = "skipped"
    """The check does not apply to the case."""

    NOT_RUN = "not run"
    """The time budget was used up, or another check hangs."""


GOOD = frozenset({Outcome.PASSED, Outcome.EXPECTED_FAILURE, Outcome.SKIPPED})
"""The outcomes that need no action."""


@dataclass(frozen=True, kw_only=True)
class Result:
    """Result of one check of one case.

    Attributes:
        check: The name of the check.
        area: The part of the contract it belongs to.
        outcome: The outcome.
        contract: The sentence that was checked.
        reason: Why the check failed, was expected to fail or was skipped.
        fix: What to do about a failure.
        seconds: The duration of the check.
        follows: The check because of which this one failed or was not run, where that is certain.
    """

    check: str
    area: str
    outcome: Outcome
    contract: str = ""
    reason: str = ""
    fix: str = ""
    seconds: float = 0.0
    follows: str = ""

    @property
    def ok(self) -> bool:
        """Whether the outcome needs no action."""
        return self.outcome in GOOD


@dataclass(frozen=True, kw_only=True)
class Report:
    """Results of all checks of one case.

    A report that lacks a check of the case's kind is not ok, so no check can be dropped silently.

    Attributes:
        case: The case.
        results: The results, in the order of the checks.
        notes: Remarks, such as that only a sample of a long source was read.
    """

    case: Case
    results: tuple[Result, ...]
    notes: tuple[str, ...] = ()

    @property
    def missing(self) -> tuple[str, ...]:
        """Checks of the case's kind without a result."""
        there = {result.check for result in self.results}
        return tuple(check.name for check in checks_for(self.case) if check.name not in there)

    @property
    def ok(self) -> bool:
        """Whether every check has a result and none needs action."""
        return not self.missing and all(result.ok for result in self.results)

    @property
    def failures(self) -> tuple[Result, ...]:
        """The results that need action."""
        return tuple(result for result in self.results if not result.ok)

    def cause(self, result: Result) -> str:
        """Return the failed check that may explain that another failed, or was not run; else nothing."""
        failed = {each.check for each in self.results if each.outcome is Outcome.FAILED}
        if result.follows in failed:
            return result.follows
        return cause_of(result.check, failed) if result.outcome is Outcome.FAILED else ""

    @property
    def root_failures(self) -> tuple[Result, ...]:
        """The failures that no other failure explains: those to fix first.

        Of the checks that were not run since the time budget was used up, only the first is one.
        """
        roots = [result for result in self.failures if not self.cause(result)]
        not_run = [result for result in roots if result.outcome is Outcome.NOT_RUN]
        return tuple(result for result in roots if result not in not_run[1:])

    def outcome(self, check: str) -> Outcome:
        """Return how the check of this name ended."""
        name = current_name(check)
        return next(result.outcome for result in self.results if result.check == name)

    def summary(self) -> str:
        """Return one line with the number of checks per outcome."""
        counts = Counter(result.outcome for result in self.results)
        parts = [f"{counts[outcome]} {outcome.value}" for outcome in Outcome if counts[outcome]]
        if self.missing:
            parts.append(f"{len(self.missing)} missing")
        seconds = sum(result.seconds for result in self.results)
        return f"{self.case.name} ({self.case.kind.value}): {', '.join(parts)} in {seconds:.1f} s"

    def table(self) -> str:
        """Return a table of all checks, with reason and fix for each failure."""
        lines = [self.summary(), *(f"  note: {note}" for note in self.notes)]
        width = max((len(result.check) for result in self.results), default=0)
        areas = max((len(result.area) for result in self.results), default=0)
        roots = self.root_failures
        for result in self.results:
            cause = self.cause(result)
            follows = f", may follow from {cause}" if cause else ""
            lines.append(
                f"  {result.area:<{areas}}  {result.check:<{width}}  {result.outcome.value}{follows}"
            )
            if cause:
                lines += _indented("", result.reason.partition("\n")[0])
                continue
            if result.outcome is not Outcome.PASSED:
                lines += _indented("", result.reason)
            if result in roots:
                if result.outcome is not Outcome.NOT_RUN:
                    lines += _indented("contract: ", result.contract)
                lines += _indented("fix: ", result.fix)
        lines += [f"  {name} has no result" for name in self.missing]
        return "\n".join(lines)

    def as_data(self) -> dict[str, Any]:
        """Return the report as JSON-compatible data."""
        return {
            "case": self.case.name,
            "kind": self.case.kind.value,
            "spec": self.case.spec,
            "capabilities": sorted(c.value for c in self.case.capabilities or ()),
            "ok": self.ok,
            "missing": list(self.missing),
            "notes": list(self.notes),
            "results": [
                {
                    "check": result.check,
                    "area": result.area,
                    "outcome": result.outcome.value,
                    "contract": result.contract,
                    "reason": result.reason,
                    "fix": "" if result.ok else result.fix,
                    "may_follow_from": self.cause(result),
                    "seconds": round(result.seconds, 3),
                }
                for result in self.results
            ],
        }

    def to_json(self) -> str:
        """Return the report as JSON text."""
        return json.dumps(self.as_data(), indent=2, ensure_ascii=False)

    def badge_svg(self) -> str:
        """Return a badge with the number of passed checks, green when the report is ok."""
        return badge_svg([self])


def badge_svg(reports: Iterable[Report]) -> str:
    """Return one badge for several reports, as SVG."""
    reports = list(reports)
    results = [result for report in reports for result in report.results]
    applied = [result for result in results if result.outcome is not Outcome.SKIPPED]
    passed = sum(result.outcome is Outcome.PASSED for result in applied)
    total = len(applied) + sum(len(report.missing) for report in reports)
    good = bool(reports) and all(report.ok for report in reports)
    label, value = "grain conformance", f"{passed}/{total}" if good else f"failing {passed}/{total}"
    left, right = 7 * len(label) + 10, 7 * len(value) + 10
    colour = "#2da44e" if good else "#cf222e"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + right}" height="20" role="img"'
        f' aria-label="{escape(label)}: {escape(value)}">'
        f'<rect width="{left}" height="20" fill="#444"/>'
        f'<rect x="{left}" width="{right}" height="20" fill="{colour}"/>'
        '<g fill="#fff" font-family="Verdana,sans-serif" font-size="11" text-anchor="middle">'
        f'<text x="{left / 2}" y="14">{escape(label)}</text>'
        f'<text x="{left + right / 2}" y="14">{escape(value)}</text></g></svg>\n'
    )


def _indented(head: str, text: str) -> list[str]:
    if not text:
        return []
    first, *others = text.strip().splitlines()
    wrapped = textwrap.wrap(
        head + first,
        96,
        initial_indent="      ",
        subsequent_indent="      ",
        break_on_hyphens=False,
    )
    return [*wrapped, *(f"      {line}" for line in others)]
