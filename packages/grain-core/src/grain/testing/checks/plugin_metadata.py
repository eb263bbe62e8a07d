"""Plugin metadata: complete, correct, cheap to list, and with a case for every spec."""

from __future__ import annotations

import re
from typing import Any

from grain.dataset.base import IterDataset
from grain.plugins.discovery import read_cases
from grain.plugins.metadata import CORE, ISOLATED, load_object
from grain.plugins.spec import Capability, Kind, Status
from grain.testing.case import Case
from grain.testing.subject import NotApplicable, Subject
from grain.testing.transform_calls import KINDS

CHECKED_KINDS = frozenset({Kind.MAP_SOURCE, Kind.ITER_SOURCE, Kind.TRANSFORM})
"""The kinds of specs that need cases."""


def check_plugin_metadata(subject: Subject) -> None:
    """Check that a plugin loads, and each of its specs has a summary and an install command.

    Set `summary` and `install` of each PluginSpec, and return the specs from the hooks.
    """
    plugin = subject.plugin
    assert plugin.status in (Status.AVAILABLE, Status.LOADED), (
        f"{plugin.module} is {plugin.status.value}: {plugin.reason}."
    )
    assert plugin.specs, f"the hooks in {plugin.module} return no PluginSpec."
    for spec in plugin.specs:
        for field in ("summary", "install"):
            assert getattr(spec, field).strip(), f"spec {spec.name!r} has no {field}."


def check_listing_imports(subject: Subject) -> None:
    """Check that listing a plugin imports none of its dependencies.

    Name targets as text in the module of the entry point, and let the package's `__init__` import
    heavy modules lazily.
    """
    observed = subject.subprocess
    assert not observed.made.error, observed.made.error
    heavy = ", ".join(observed.eager_imports)
    assert not heavy, f"listing the plugin imports {heavy}."


def check_targets_match_kind(subject: Subject) -> None:
    """Check that each spec's target, writer and decoder are importable and of the spec's kind.

    Correct the `target` ("package.module:Name"), `writer`, `decoder` or the `kind` of the spec.
    """
    for spec in subject.plugin.specs:
        target = _imported(spec.target)
        for function in filter(None, (spec.writer, spec.decoder)):
            _imported(function)
        if spec.kind is Kind.MAP_SOURCE and isinstance(target, type):
            missing = [n for n in ("__len__", "__getitem__") if not hasattr(target, n)]
            assert not missing, f"{spec.target} is not a map source: it lacks {', '.join(missing)}."
        if spec.kind is Kind.ITER_SOURCE and isinstance(target, type):
            assert issubclass(target, IterDataset), f"{spec.target} is not a grain.IterDataset."
        if spec.kind is Kind.TRANSFORM and isinstance(target, type):
            assert issubclass(target, KINDS), (
                f"{spec.target} is not a subclass of a transform of grain.transforms."
            )


def check_core_requirement_bounded(subject: Subject) -> None:
    """Check that the distribution requires grain-core with a lower and an upper bound.

    Add `"grain-core>=1,<2"` to the `dependencies` of `pyproject.toml`.
    """
    candidate = subject.fresh()
    if candidate.distribution is None:
        raise NotApplicable("the plugin has no distribution")
    found = [line for line in candidate.requires if _distribution_of(line) == CORE]
    assert found, f"{candidate.distribution} does not require {CORE}."
    for line in found:
        bounded = ">" in line and "<" in line
        assert bounded, (
            f"{candidate.distribution} requires {line!r}, expected a lower and an upper bound."
        )


def check_every_spec_has_case(subject: Subject) -> None:
    """Check that the plugin supplies a conformance case for each of its sources and transforms.

    Return a `grain.testing.Case(spec="…")` for each from the hook `grain_conformance_cases`.
    """
    cases = read_cases(subject.fresh().load())
    specs = {spec.name: spec for spec in subject.plugin.specs}
    for case in cases:
        assert isinstance(case, Case), (
            f"grain_conformance_cases() returned {case!r:.80}, not a Case."
        )
        assert case.spec in specs, (
            f"case {case.name!r} names the spec {case.spec!r}; the plugin has {', '.join(specs)}."
        )
        assert case.kind.value == specs[case.spec].kind.value, (
            f"case {case.name!r} is a {case.kind.value}, its spec a {specs[case.spec].kind.value}."
        )
    names = [case.name for case in cases]
    assert len(set(names)) == len(names), f"two cases have the same name: {sorted(names)}."
    covered = {case.spec for case in cases}
    missing = [
        name for name, spec in specs.items() if spec.kind in CHECKED_KINDS and name not in covered
    ]
    assert not missing, f"no case for {', '.join(missing)}."


def check_cases_cover_capabilities(subject: Subject) -> None:
    """Check that the cases of a spec together declare exactly the capabilities of the spec.

    Omit `capabilities` in a case to use those of its spec; set them only in a case that has fewer,
    such as one with records that do not stack.
    """
    for spec in subject.plugin.specs:
        if spec.kind not in CHECKED_KINDS:
            continue
        declared = [
            spec.capabilities if case.capabilities is None else case.capabilities
            for case in read_cases(subject.fresh().load())
            if isinstance(case, Case) and case.spec == spec.name
        ]
        if not declared:
            continue  # `check_every_spec_has_case` reports it
        covered: frozenset[Capability] = frozenset().union(*declared)
        uncovered = ", ".join(sorted(spec.capabilities - covered))
        assert not uncovered, f"no case of {spec.name!r} declares {uncovered}."
        added = ", ".join(sorted(covered - spec.capabilities))
        assert not added, f"a case of {spec.name!r} declares {added}, but the spec does not."


def _imported(reference: str) -> Any:
    try:
        found = load_object(reference)
    except ISOLATED as error:
        raise AssertionError(f"importing {reference} raised {error!r}.") from error
    assert callable(found), f"{reference} is not callable."
    return found


def _distribution_of(requirement: str) -> str:
    name = re.match(r"[\w.-]+", requirement.strip())
    return re.sub(r"[-_.]+", "-", name[0]).lower() if name else ""
