"""What came out: one result per check, as a table, as JSON and as a badge."""

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
from grain.testing.former_names import current_name
from grain.testing.registry import checks_for


class Outcome(enum.StrEnum):
    """How a check ended."""

    PASSED = "passed"
    """The sentence holds."""

    FAILED = "failed"
    """It does not, or the case names a check that does not exist."""

    EXPECTED_FAILURE = "expected failure"
    """It does not, and the case says why."""

    UNEXPECTED_PASS = "unexpected pass"
    """It holds, and the case says that it does not: the case is out of date."""

    SKIPPED = "skipped"
    """It does not apply, since the case does not declare the capability it is about."""


GOOD = frozenset({Outcome.PASSED, Outcome.EXPECTED_FAILURE, Outcome.SKIPPED})
"""The outcomes that are in order."""


@dataclass(frozen=True, kw_only=True)
class Result:
    """How one check ended for one case.

    Attributes:
        check: The check's name.
        area: The part of the contract it belongs to.
        outcome: How it ended.
        contract: The sentence that was checked.
        reason: What went wrong, or why it was expected or skipped.
        fix: What to do about it.
        seconds: How long it took.
    """

    check: str
    area: str
    outcome: Outcome
    contract: str = ""
    reason: str = ""
    fix: str = ""
    seconds: float = 0.0

    @property
    def ok(self) -> bool:
        """Whether nobody has to do anything."""
        return self.outcome in GOOD


@dataclass(frozen=True, kw_only=True)
class Report:
    """All results of one case.

    A report in which a check of the case's kind is missing is not in order: nothing can be left
    out without showing.
    """

    case: Case
    results: tuple[Result, ...]

    @property
    def missing(self) -> tuple[str, ...]:
        """Checks of this kind that have no result."""
        there = {result.check for result in self.results}
        return tuple(check.name for check in checks_for(self.case) if check.name not in there)

    @property
    def ok(self) -> bool:
        """Whether every check was run and is in order."""
        return not self.missing and all(result.ok for result in self.results)

    @property
    def failures(self) -> tuple[Result, ...]:
        """The results that somebody has to do something about."""
        return tuple(result for result in self.results if not result.ok)

    def outcome(self, check: str) -> Outcome:
        """Return how the check of this name ended."""
        name = current_name(check)
        return next(result.outcome for result in self.results if result.check == name)

    def summary(self) -> str:
        """One line: how many checks ended how."""
        counts = Counter(result.outcome for result in self.results)
        parts = [f"{counts[outcome]} {outcome.value}" for outcome in Outcome if counts[outcome]]
        if self.missing:
            parts.append(f"{len(self.missing)} missing")
        seconds = sum(result.seconds for result in self.results)
        return f"{self.case.name} ({self.case.kind.value}): {', '.join(parts)} in {seconds:.1f} s"

    def table(self) -> str:
        """A table for a person: each check, and for those that fail why and how to fix it."""
        lines = [self.summary()]
        width = max((len(result.check) for result in self.results), default=0)
        areas = max((len(result.area) for result in self.results), default=0)
        for result in self.results:
            lines.append(
                f"  {result.area:<{areas}}  {result.check:<{width}}  {result.outcome.value}"
            )
            if result.outcome is not Outcome.PASSED:
                lines += _indented("", result.reason)
            if not result.ok:
                lines += _indented("contract: ", result.contract)
                lines += _indented("fix: ", result.fix)
        lines += [f"  {name} was not run" for name in self.missing]
        return "\n".join(lines)

    def as_data(self) -> dict[str, Any]:
        """The report as JSON holds it."""
        return {
            "case": self.case.name,
            "kind": self.case.kind.value,
            "spec": self.case.spec,
            "capabilities": sorted(c.value for c in self.case.capabilities or ()),
            "ok": self.ok,
            "missing": list(self.missing),
            "results": [
                {
                    "check": result.check,
                    "area": result.area,
                    "outcome": result.outcome.value,
                    "contract": result.contract,
                    "reason": result.reason,
                    "fix": "" if result.ok else result.fix,
                    "seconds": round(result.seconds, 3),
                }
                for result in self.results
            ],
        }

    def to_json(self) -> str:
        """The report as JSON text."""
        return json.dumps(self.as_data(), indent=2, ensure_ascii=False)

    def badge_svg(self) -> str:
        """A badge: how many checks are in order, green when all are."""
        return badge_svg([self])


def badge_svg(reports: Iterable[Report]) -> str:
    """One badge for several reports, to put into a README."""
    reports = list(reports)
    results = [result for report in reports for result in report.results]
    applied = [result for result in results if result.outcome is not Outcome.SKIPPED]
    held = sum(result.outcome is Outcome.PASSED for result in applied)
    total = len(applied) + sum(len(report.missing) for report in reports)
    good = bool(reports) and all(report.ok for report in reports)
    label, value = "grain conformance", f"{held}/{total}" if good else f"failing {held}/{total}"
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
