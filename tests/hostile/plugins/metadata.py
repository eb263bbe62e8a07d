"""Plugins with one source each, which differ in their metadata."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from grain.plugins import Capability, Kind, PluginSpec, hookimpl
from grain.testing import Case

from ..good import GoodSource, write

SPEC = PluginSpec(
    name="hostile",
    target="tests.hostile.good:GoodSource",
    kind=Kind.MAP_SOURCE,
    capabilities=frozenset({Capability.BATCHED_READ}),
    summary="Good.",
    install="pip install grain-hostile",
)
CASE = Case(name="good", spec="hostile", prepare=write, make=GoodSource)


class Metadata:
    """A plugin with the good spec, changed by keyword arguments, and with the given cases."""

    def __init__(self, *cases: Case, **changes: Any):
        self._cases = list(cases)
        self._changes = changes

    @hookimpl
    def grain_sources(self) -> list[PluginSpec]:
        return [replace(SPEC, **self._changes)]

    @hookimpl
    def grain_conformance_cases(self) -> list[Case]:
        return self._cases


class RaisingHook:
    @hookimpl
    def grain_sources(self) -> list[PluginSpec]:
        raise RuntimeError("the hook raised")


CLOSABLE = frozenset({Capability.BATCHED_READ, Capability.CLOSABLE})

good = Metadata(CASE)
no_summary = Metadata(CASE, summary="")
raising_hook = RaisingHook()
missing_target = Metadata(CASE, target="tests.hostile.good:NoSuchSource")
wrong_kind = Metadata(CASE, target="tests.hostile.good:GoodMap")
no_case = Metadata()
unknown_spec = Metadata(CASE, replace(CASE, name="x", spec="other"))
uncovered_capability = Metadata(
    replace(CASE, capabilities=SPEC.capabilities), capabilities=CLOSABLE
)
undeclared_capability = Metadata(replace(CASE, capabilities=CLOSABLE))
