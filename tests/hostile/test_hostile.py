"""Every hostile subject is caught by its check, and fails no other check than those listed."""

from __future__ import annotations

import collections
import functools
import os
from dataclasses import replace

import pytest

from grain.plugins import Capability
from grain.testing import (
    CHECKS,
    Case,
    CaseKind,
    Outcome,
    Result,
    Subject,
    check_one,
    checks_for,
    run,
)
from grain.testing.transform_calls import apply_all

from . import good, sources, streams, transforms
from .candidates import candidate
from .plugins import writing
from .table import HOSTILE, Hostile


def good_cases() -> list[Case]:
    kinds = {
        kind: list(apply_all(kind(), good.ELEMENTS))
        for kind in (good.GoodMap, good.GoodRandomMap, good.GoodFilter, good.GoodFlatMap)
    }
    return [
        Case(
            name="source",
            prepare=good.write,
            make=good.GoodSource,
            make_larger=functools.partial(good.GoodSource, name="larger"),
            elements=good.ELEMENTS,
            capabilities=good.ALL | {Capability.GLOBS},
            ways={Capability.GLOBS: good.GoodSource},
        ),
        Case(
            name="stream",
            kind=CaseKind.ITER_SOURCE,
            prepare=good.write,
            make=good.GoodStream,
            make_larger=functools.partial(good.GoodStream, name="larger"),
            elements=good.ELEMENTS,
            capabilities=frozenset(),
        ),
        *(
            Case(
                name=kind.__name__,
                kind=CaseKind.TRANSFORM,
                make=kind,
                inputs=good.ELEMENTS,
                elements=elements,
            )
            for kind, elements in kinds.items()
        ),
        Case(name="plugin", kind=CaseKind.PLUGIN, make=good_candidate),
        Case(name="plugin with a writer", kind=CaseKind.PLUGIN, make=good_writing_candidate),
    ]


def good_candidate():
    return candidate("metadata:good")


def good_writing_candidate():
    return candidate("writing:good")


@pytest.mark.parametrize("case", good_cases(), ids=lambda case: case.name)
def test_good_subjects_pass_every_check(case):
    report = run(case)
    assert report.ok, report.table()
    assert not report.missing
    skipped = {result.check for result in report.results if result.outcome is Outcome.SKIPPED}
    assert skipped == (WRITER_CHECKS if case.name == "plugin" else set())


WRITER_CHECKS = {check.name for check in CHECKS if check.area == "writer"}


# Worker processes take most of the time, so subjects that need not fail there skip these checks.
WITH_WORKERS = {"check_loader_workers", "check_stream_workers"}
ALL_CELLS = os.environ.get("GRAIN_HOSTILE_ALL_CELLS") == "1"


def results_of(hostile: Hostile) -> list[Result]:
    subject = Subject(hostile.case)
    skipped = set() if ALL_CELLS else WITH_WORKERS - {hostile.by, *hostile.also}
    checks = [check for check in checks_for(hostile.case) if check.name not in skipped]
    return [check_one(check, subject) for check in checks]


@pytest.mark.parametrize("hostile", HOSTILE, ids=lambda hostile: hostile.case.name)
def test_a_hostile_subject_is_caught_by_its_check_and_only_by_the_listed_ones(hostile: Hostile):
    failures = [result for result in results_of(hostile) if not result.ok]
    reasons = "\n".join(f"{result.check}: {result.reason}" for result in failures)
    caught = {result.check for result in failures}
    assert hostile.by in caught, reasons
    assert hostile.also <= caught, reasons
    assert caught <= {hostile.by} | hostile.also | hostile.perhaps, reasons
    for result in failures:
        assert result.reason
        assert result.fix


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.name)
def test_every_check_catches_a_hostile_subject(check):
    kinds = collections.Counter(
        hostile.case.kind for hostile in HOSTILE if hostile.by == check.name
    )
    assert kinds, f"{check.name} has no hostile subject, so it may never fail"
    assert set(kinds) <= check.kinds


def test_there_are_many_hostile_subjects_and_each_is_listed_once():
    names = [hostile.case.name for hostile in HOSTILE]
    assert len(names) >= 30
    assert len(set(names)) == len(names)


def test_every_hostile_class_is_in_the_table():
    used = {hostile.case.name for hostile in HOSTILE}
    for module in (sources, streams, transforms):
        for name, value in vars(module).items():
            ours = isinstance(value, type) and value.__module__ == module.__name__
            assert not ours or name.startswith("_") or name in used, name


def test_every_hostile_writer_is_in_the_table():
    used = {hostile.case.name for hostile in HOSTILE}
    for name, value in vars(writing).items():
        assert not isinstance(value, writing.Writing) or name == "good" or f"writing:{name}" in used


def test_a_hostile_subject_that_expects_its_failure_is_ok():
    hostile = next(each for each in HOSTILE if each.case.name == "metadata:no_summary")
    expecting = replace(
        hostile.case, expected_failures={hostile.by: ("not-yet", "the summary is missing")}
    )
    report = run(expecting)
    assert report.ok
    assert report.outcome(hostile.by) is Outcome.EXPECTED_FAILURE
