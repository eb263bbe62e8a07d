"""Plugin specs of this package.

This module is imported whenever plugins are listed, so it must be light: it names the target as text
and does not import it.
"""

from __future__ import annotations

import importlib
from typing import Any

from grain.plugins import Capability, Kind, PluginSpec, hookimpl


@hookimpl
def grain_sources() -> list[PluginSpec]:
    """Return the specs of this package's sources."""
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
    """Return the conformance cases, imported on demand."""
    cases: list[Any] = importlib.import_module("grain_jsonl.conformance").cases()
    return cases
