"""Run the checks of one case, or of all cases that an installed plugin supplies."""

from __future__ import annotations

import functools
import time
import traceback
from dataclasses import replace
from typing import Any

from grain import plugins
from grain.plugins.discovery import Candidate, find_candidates
from grain.plugins.metadata import installed_distributions
from grain.plugins.spec import PluginSpec
from grain.testing.case import Case, CaseKind
from grain.testing.registry import CHECKS, Check, checks_for
from grain.testing.report import Outcome, Report, Result
from grain.testing.subject import ConsequenceError, NotApplicable, Subject
from grain.testing.time_limit import TimeLimitError, call_with_limit

_HANG_FIX = "Find out why the call does not return, or raise the case's check_timeout."
_BUDGET_HANG_FIX = "Find out why the call does not return, or raise the case's budget."
_BUDGET_FIX = (
    "Raise the case's budget (`grain conformance --budget`), or make the case smaller or faster."
)

_SHORTEST_HANG = 0.5
"""Seconds that a call must have lasted, at least, to be taken to hang at the end of a budget."""


def run(case: Case) -> Report:
    """Run every check of the case's kind and report the outcomes; a faulty source never raises.

    Example:
        >>> import functools, grain
        >>> from grain.plugins import Capability
        >>> make = functools.partial(grain.sources.RangeDataSource, 0, 4, 1)
        >>> capabilities = {Capability.BATCHED_READ, Capability.COLUMNS, Capability.THREAD_SAFE}
        >>> report = run(Case(name="range", make=make, capabilities=capabilities))
        >>> report.ok, report.failures
        (True, ())
    """
    subject = Subject(case)
    results = [check_one(check, subject) for check in checks_for(case)]
    notes = () if subject.abandoned_check else subject.notes()
    return Report(case=case, results=(*results, *unknown_names(case)), notes=notes)


def check_one(check: Check, subject: Subject) -> Result:
    """Run one check on a subject, within its time limit and the rest of the case's budget.

    After a check that hangs, no other check of the subject is run: the check is still running, and
    most others would hang in the same way. A check that the budget ends is not run, unless it waits
    for a single call of the code under test.
    """
    case = subject.case
    expected = case.expected_failures.get(check.name)
    make = functools.partial(
        Result, check=check.name, area=check.area, contract=check.contract, fix=check.fix
    )
    if not check.applies_to(case):
        assert check.needs is not None
        return make(**_skipped(case, check, f"the case does not declare {check.needs.value!r}"))
    if subject.hung_check:
        return make(
            outcome=Outcome.NOT_RUN,
            reason=f"{subject.hung_check} hangs and is still running.",
            fix=f"Fix {subject.hung_check} first.",
            follows=subject.hung_check,
        )
    rest = case.budget - subject.seconds
    if rest <= 0 or subject.abandoned_check:
        return make(
            outcome=Outcome.NOT_RUN,
            reason=f"the checks before took the time budget of {case.budget:g} s.",
            fix=_BUDGET_FIX,
        )
    if not __debug__:
        raise RuntimeError("Checks are assertions, which `python -O` removes: run without -O.")
    started = time.perf_counter()
    follows = ""
    try:
        _run(check, subject, rest)
        reason = None
    except NotApplicable as skip:
        return make(**_skipped(case, check, str(skip)))
    except BudgetError as error:
        return make(
            outcome=Outcome.NOT_RUN,
            reason=str(error),
            fix=_BUDGET_FIX,
            seconds=time.perf_counter() - started,
        )
    except ConsequenceError as error:
        reason, follows = str(error), error.cause
    except Exception as error:
        reason = _described(error)
    finally:
        seconds = time.perf_counter() - started
        subject.seconds += seconds
        subject.longest_check = max(subject.longest_check, seconds)
    if expected is None:
        outcome = Outcome.PASSED if reason is None else Outcome.FAILED
        fix = check.fix
        if subject.hung_check:
            fix = _HANG_FIX if case.check_timeout < rest else _BUDGET_HANG_FIX
        return make(outcome=outcome, reason=reason or "", fix=fix, seconds=seconds, follows=follows)
    if reason is None:
        return make(
            outcome=Outcome.UNEXPECTED_PASS,
            reason=f"the check was expected to fail ({expected.kind.value}): {expected.reason}",
            fix="The check passes now: remove it from the case's expected_failures.",
            seconds=seconds,
        )
    return make(
        outcome=Outcome.EXPECTED_FAILURE,
        reason=f"{expected.kind.value}: {expected.reason}",
        seconds=seconds,
    )


def _skipped(case: Case, check: Check, reason: str) -> dict[str, Any]:
    if check.name not in case.expected_failures:
        return {"outcome": Outcome.SKIPPED, "reason": reason}
    return {
        "outcome": Outcome.FAILED,
        "reason": f"{reason}, but the case lists this check in expected_failures.",
        "fix": "Remove the check from the case's expected_failures.",
    }


def unknown_names(case: Case) -> list[Result]:
    """Return a failure for each name in `expected_failures` that is not a check of this kind."""
    known = [check.name for check in checks_for(case)]
    other_kinds = {check.name for check in CHECKS}
    return [
        Result(
            check=name,
            area="case",
            outcome=Outcome.FAILED,
            contract="Every name in expected_failures is a check of the case's kind.",
            reason=f"there is no check {name!r} for a {case.kind.value}"
            + (", only for other kinds." if name in other_kinds else "."),
            fix=f"Correct the name. The checks of this kind are {', '.join(known)}.",
        )
        for name in case.expected_failures
        if name not in known
    ]


def cases_of(name: str) -> list[Case]:
    """Return the cases of an installed plugin: one for its metadata, and those it supplies."""
    plugin = next((plugin for plugin in plugins.plugins() if plugin.name == name), None)
    specs = {spec.name: spec for spec in plugin.specs} if plugin else {}
    supplied = [
        _with_capabilities(case, specs)
        for case in plugins.conformance_cases(name)
        if isinstance(case, Case)  # `check_every_spec_has_case` reports other objects
    ]
    return [plugin_case(name), *supplied]


def plugin_case(name: str) -> Case:
    """Return the case that checks an installed plugin's metadata."""
    return Case(name=name, kind=CaseKind.PLUGIN, make=functools.partial(candidate_named, name))


def candidate_named(name: str) -> Candidate:
    """Return the entry point of an installed plugin."""
    found = [c for c in find_candidates(installed_distributions()) if c.name == name]
    if len(found) != 1:
        raise LookupError(f"Found {len(found)} installed plugins called {name!r}, expected one.")
    return found[0]


def run_plugin(name: str) -> list[Report]:
    """Run the checks of all cases of an installed plugin."""
    return [run(case) for case in cases_of(name)]


def _with_capabilities(case: Case, specs: dict[str, PluginSpec]) -> Case:
    if case.capabilities is not None or case.spec not in specs:
        return case
    return replace(case, capabilities=specs[case.spec].capabilities)


class BudgetError(Exception):
    """A check was abandoned since the budget of its case was used up; it did not fail."""


def _run(check: Check, subject: Subject, rest: float) -> None:
    """Call the function of a check, within its own limit and the rest of the budget.

    At the end of the budget, a check hangs if one call of the code under test has lasted longer than
    all that the check did before, and longer than each of the checks before.
    """
    case = subject.case
    is_own_limit = case.check_timeout < rest
    limit = case.check_timeout if is_own_limit else rest
    patience = max(subject.longest_check, rest / 2, _SHORTEST_HANG)
    watch_from = None if is_own_limit or patience >= rest else rest - patience
    try:
        call_with_limit(check.function, subject, limit, watch_from)
    except TimeLimitError as error:
        subject.abandoned_check = check.name
        if is_own_limit or error.is_stuck:
            subject.hung_check = check.name
            raise
        raise BudgetError(
            f"the time budget of {case.budget:g} s was used up {limit:.3g} s after the check"
            f" started; it was in:\n{error.stack}"
        ) from error


def _described(error: Exception) -> str:
    """Return why a check failed."""
    if isinstance(error, TimeLimitError):
        return str(error)
    if isinstance(error, AssertionError):
        # pytest's assertion rewriting appends the compared values.
        message = str(error).partition("\nassert ")[0]
        return message or "an assertion in the source failed."
    shown: Any = error
    lines = traceback.format_exception(type(shown), shown, shown.__traceback__, limit=-2)
    return f"it raised {type(error).__name__}: {error}\n{''.join(lines).rstrip()}"
