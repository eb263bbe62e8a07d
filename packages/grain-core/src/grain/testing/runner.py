"""Running checks: of one case, or of everything an installed plugin supplies."""

from __future__ import annotations

import functools
import time
import traceback
from dataclasses import replace
from typing import Any

from grain import plugins
from grain.plugins.discovery import Candidate, find_candidates
from grain.plugins.installed import installed_distributions
from grain.plugins.spec import PluginSpec
from grain.testing.case import Case, CaseKind
from grain.testing.registry import CHECKS, Check, checks_for
from grain.testing.report import Outcome, Report, Result
from grain.testing.subject import Subject


def run(case: Case) -> Report:
    """Runs every check of the case's kind, and says how each ended. Never raises for a bad source.

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
    return Report(case=case, results=(*results, *unknown_names(case)))


def check_one(check: Check, subject: Subject) -> Result:
    """Runs one check on a subject."""
    case = subject.case
    expected = case.expected_failures.get(check.name)
    make = functools.partial(
        Result, check=check.name, area=check.area, contract=check.contract, fix=check.fix
    )
    if not check.applies_to(case):
        assert check.needs is not None
        undeclared = f"the case does not declare {check.needs.value!r}"
        if expected is not None:
            return make(
                outcome=Outcome.FAILED,
                reason=f"{undeclared}, and yet expects this check to fail.",
                fix="Take it out of the case's expected_failures, or declare the capability.",
            )
        return make(outcome=Outcome.SKIPPED, reason=undeclared)
    started = time.perf_counter()
    reason = _reason(check, subject)
    seconds = time.perf_counter() - started
    if expected is None:
        outcome = Outcome.PASSED if reason is None else Outcome.FAILED
        return make(outcome=outcome, reason=reason or "", seconds=seconds)
    if reason is None:
        return make(
            outcome=Outcome.UNEXPECTED_PASS,
            reason=f"it was expected to fail ({expected.kind.value}): {expected.reason}",
            fix="It holds now: take it out of the case's expected_failures.",
            seconds=seconds,
        )
    return make(
        outcome=Outcome.EXPECTED_FAILURE,
        reason=f"{expected.kind.value}: {expected.reason}",
        seconds=seconds,
    )


def unknown_names(case: Case) -> list[Result]:
    """A failure for each expected failure that is no check of this kind."""
    known = [check.name for check in checks_for(case)]
    elsewhere = {check.name for check in CHECKS}
    return [
        Result(
            check=name,
            area="case",
            outcome=Outcome.FAILED,
            contract="Every name in expected_failures is a check of the case's kind.",
            reason=f"there is no check {name!r} for a {case.kind.value}"
            + (", only for other kinds." if name in elsewhere else "."),
            fix=f"Correct the name. There are: {', '.join(known)}.",
        )
        for name in case.expected_failures
        if name not in known
    ]


def cases_of(name: str) -> list[Case]:
    """The cases of an installed plugin: one of its own description, and those that it supplies."""
    plugin = next((plugin for plugin in plugins.plugins() if plugin.name == name), None)
    specs = {spec.name: spec for spec in plugin.specs} if plugin else {}
    supplied = [
        _with_capabilities(case, specs)
        for case in plugins.conformance_cases(name)
        if isinstance(case, Case)  # anything else is for `check_every_spec_has_case` to say
    ]
    return [plugin_case(name), *supplied]


def plugin_case(name: str) -> Case:
    """The case of an installed plugin's description of itself."""
    return Case(name=name, kind=CaseKind.PLUGIN, make=functools.partial(candidate_named, name))


def candidate_named(name: str) -> Candidate:
    """The entry point of an installed plugin."""
    found = [c for c in find_candidates(installed_distributions()) if c.name == name]
    if len(found) != 1:
        raise LookupError(f"{len(found)} installed plugins are called {name!r}, expected one.")
    return found[0]


def run_plugin(name: str) -> list[Report]:
    """Checks an installed plugin by the cases that it supplies; needs no test file."""
    return [run(case) for case in cases_of(name)]


def _with_capabilities(case: Case, specs: dict[str, PluginSpec]) -> Case:
    if case.capabilities is not None or case.spec not in specs:
        return case
    return replace(case, capabilities=specs[case.spec].capabilities)


def _reason(check: Check, subject: Subject) -> str | None:
    """Why the check fails; None when it holds."""
    if not __debug__:
        raise RuntimeError("Checks are assertions, which `python -O` leaves out: run without -O.")
    try:
        check.function(subject)
    except AssertionError as error:
        # Under pytest an assertion also shows the values that were compared.
        told = str(error).partition("\nassert ")[0]
        return told or "an assertion in the source failed."
    except Exception as error:
        return _told(error)
    return None


def _told(error: Any) -> str:
    lines = traceback.format_exception(type(error), error, error.__traceback__, limit=-2)
    return f"it raised {type(error).__name__}: {error}\n{''.join(lines).rstrip()}"
