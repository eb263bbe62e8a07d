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
from grain.testing.subject import NotApplicable, Subject
from grain.testing.time_limit import TimeLimitError, call_with_limit

_HANG_FIX = "Find out why the call does not return, or raise the case's check_timeout."


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
    notes = () if subject.hung_check else subject.notes()
    return Report(case=case, results=(*results, *unknown_names(case)), notes=notes)


def check_one(check: Check, subject: Subject) -> Result:
    """Run one check on a subject, within its time limit.

    After a check that hangs, no other check of the subject is run: the check is still running, and
    most others would hang in the same way.
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
        )
    limit = min(case.check_timeout, case.budget - subject.seconds)
    if limit <= 0:
        return make(
            outcome=Outcome.NOT_RUN,
            reason=f"the checks before took the time budget of {case.budget:g} s.",
            fix="Make the case smaller or faster, or raise its budget.",
        )
    started = time.perf_counter()
    try:
        reason = _reason(check, subject, limit)
    except NotApplicable as skip:
        return make(**_skipped(case, check, str(skip)))
    finally:
        seconds = time.perf_counter() - started
        subject.seconds += seconds
    if expected is None:
        outcome = Outcome.PASSED if reason is None else Outcome.FAILED
        fix = _HANG_FIX if subject.hung_check else check.fix
        return make(outcome=outcome, reason=reason or "", fix=fix, seconds=seconds)
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


def _reason(check: Check, subject: Subject, limit: float) -> str | None:
    """Return why the check fails; None when it passes. `NotApplicable` is raised."""
    if not __debug__:
        raise RuntimeError("Checks are assertions, which `python -O` removes: run without -O.")
    try:
        call_with_limit(check.function, subject, limit)
    except AssertionError as error:
        # pytest's assertion rewriting appends the compared values.
        message = str(error).partition("\nassert ")[0]
        return message or "an assertion in the source failed."
    except NotApplicable:
        raise
    except TimeLimitError as error:
        subject.hung_check = check.name
        return str(error)
    except Exception as error:
        return _described(error)
    return None


def _described(error: Any) -> str:
    lines = traceback.format_exception(type(error), error, error.__traceback__, limit=-2)
    return f"it raised {type(error).__name__}: {error}\n{''.join(lines).rstrip()}"
