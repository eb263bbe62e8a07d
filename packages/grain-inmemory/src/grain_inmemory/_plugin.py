"""Plugin specs of this package."""

from __future__ import annotations

import importlib
from typing import Any

from grain.plugins import Capability, Kind, PluginSpec, hookimpl


@hookimpl
def grain_sources() -> list[PluginSpec]:
    return [
        PluginSpec(
            name="inmemory",
            target="grain_inmemory.source:SharedMemoryDataSource",
            kind=Kind.MAP_SOURCE,
            public_names=("InMemoryDataSource", "SharedMemoryDataSource"),
            capabilities=frozenset(
                {
                    Capability.BATCHED_READ,
                    Capability.COLUMNS,
                    Capability.THREAD_SAFE,
                    Capability.CLOSABLE,
                }
            ),
            summary="Elements stored once in shared memory, for any number of processes.",
            install='pip install "grain-core[inmemory]>=1,<2"',
        )
    ]


@hookimpl
def grain_conformance_cases() -> list[Any]:
    """Return the conformance cases, imported on demand."""
    cases: list[Any] = importlib.import_module("grain_inmemory.conformance").cases()
    return cases
