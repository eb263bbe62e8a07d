"""Names a target that is not there."""

from __future__ import annotations

from grain.plugins import Capability, Kind, PluginSpec, hookimpl
from grain.testing import Case

from ..good import GoodSource, write


@hookimpl
def grain_sources() -> list[PluginSpec]:
    return [
        PluginSpec(
            name="hostile",
            target="tests.hostile.good:NoSuchSource",
            kind=Kind.MAP_SOURCE,
            capabilities=frozenset({Capability.BATCHED_READ}),
            summary="Good.",
            install="pip install grain-hostile",
        )
    ]


@hookimpl
def grain_conformance_cases() -> list[Case]:
    return [Case(name="good", spec="hostile", prepare=write, make=GoodSource)]
