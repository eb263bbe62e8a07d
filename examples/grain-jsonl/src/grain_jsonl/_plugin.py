"""What this package offers to grain.

This module is imported to list plugins, so it must be quick: the target is named, not imported.
"""

from __future__ import annotations

import importlib
from typing import Any

from grain.plugins import Capability, Kind, PluginSpec, hookimpl


@hookimpl
def grain_sources() -> list[PluginSpec]:
    """The one source of this package."""
    return [
        PluginSpec(
            name="jsonl",
            target="grain_jsonl.source:JsonLinesDataSource",
            kind=Kind.MAP_SOURCE,
            public_names=("JsonLinesDataSource",),
            schemes=("jsonl",),
            suffixes=(".jsonl", ".ndjson"),
            capabilities=frozenset(
                {
                    Capability.BATCHED_READ,
                    Capability.THREAD_SAFE,
                    Capability.GLOBS,
                    Capability.CLOSABLE,
                }
            ),
            summary="Random access to the lines of JSON-lines files.",
            install="pip install grain-jsonl",
            writer="grain_jsonl.writer:write_elements",
        )
    ]


@hookimpl
def grain_conformance_cases() -> list[Any]:
    """What proves this package right; imported only when it is checked."""
    cases: list[Any] = importlib.import_module("grain_jsonl.conformance").cases()
    return cases
