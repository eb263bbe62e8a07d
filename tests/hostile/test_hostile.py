"""Every hostile subject is caught by its check, and fails no other check than those listed."""

from __future__ import annotations

import collections
import os
from dataclasses import replace

import pytest

from grain.testing import (
    CHECKS,
    Outcome,
    Result,
    Subject,
    check_one,
    checks_for,
    run,
)

from . import datasets, sources, streams, transforms
from .good_cases import good_cases
from .plugins import writing
from .table import HOSTILE, Hostile


@pytest.mark.parametrize("case", good_cases(), ids=lambda case: case.name)
def test_good_subjects_pass_every_check(case):
    report = run(case)
    assert report.ok, report.table()
    assert not report.missing
    skipped = {result.check for result in report.results if result.outcome is Outcome.SKIPPED}
    assert skipped <= (WRITER_CHECKS if case.name == "plugin" else NOT_FOR_ALL)


NOT_FOR_ALL = {
    "check_batch_sizes",
    "check_element_spec",
    "check_fingerprint_distinguishes",
    "check_generator_used",
    "check_invalid_input_raises",
    "check_known_length",
    "check_pickle_growth",
}
WRITER_CHECKS = {check.name for check in CHECKS if check.area == "writer"}


# Processes take most of the time, so subjects that need not fail there skip these checks.
WITH_PROCESSES = {
    "check_loader_workers",
    "check_stream_workers",
    "check_pickle_across_processes",
    "check_repeatable_across_processes",
    "check_repr_across_processes",
    "check_fingerprint_stable",
    "check_listing_imports",
}
ALL_CELLS = os.environ.get("GRAIN_HOSTILE_ALL_CELLS") == "1"


def results_of(hostile: Hostile) -> list[Result]:
    subject = Subject(hostile.case)
    skipped = set() if ALL_CELLS else WITH_PROCESSES - {hostile.by, *hostile.also}
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


# The broken executors are in the tests of the core.
OURS = [check for check in CHECKS if check.area != "executor"]


@pytest.mark.parametrize("check", OURS, ids=lambda check: check.name)
def test_every_check_catches_a_hostile_subject(check):
    kinds = collections.Counter(
        hostile.case.kind for hostile in HOSTILE if hostile.by == check.name
    )
    assert kinds, f"{check.name} has no hostile subject, so it may never fail"
    assert set(kinds) <= check.kinds


def test_there_are_many_hostile_subjects_and_each_is_listed_once():
    names = [hostile.case.name for hostile in HOSTILE]
    assert len(names) >= 200
    assert len(set(names)) == len(names)


def test_every_hostile_class_is_in_the_table():
    used = {hostile.case.name for hostile in HOSTILE}
    for module in (sources, streams, transforms, datasets):
        for name, value in vars(module).items():
            ours = isinstance(value, type) and value.__module__ == module.__name__
            assert (
                not ours
                or name.startswith(("_", "Good"))
                or name in used
                or issubclass(value, Exception)
            ), name


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
