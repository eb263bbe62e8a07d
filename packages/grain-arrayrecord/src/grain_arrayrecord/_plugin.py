"""Plugin specs of this package; importing this module does not load the ArrayRecord library."""

from __future__ import annotations

import importlib
from typing import Any

from grain.plugins import Capability, Kind, PluginSpec, hookimpl


@hookimpl
def grain_sources() -> list[PluginSpec]:
    return [
        PluginSpec(
            name="arrayrecord",
            target="grain_arrayrecord.source:ArrayRecordDataSource",
            kind=Kind.MAP_SOURCE,
            public_names=("ArrayRecordDataSource",),
            schemes=("arrayrecord",),
            suffixes=(".array_record", ".arrayrecord"),
            capabilities=frozenset(
                {
                    Capability.BATCHED_READ,
                    Capability.THREAD_SAFE,
                    Capability.GLOBS,
                    Capability.CLOSABLE,
                }
            ),
            summary="Random access to the records of ArrayRecord files.",
            install='pip install "grain-core[arrayrecord]>=1,<2"',
            writer="grain_arrayrecord.writer:write_elements",
            decoder="grain_arrayrecord.record_encoding:decode_record",
        )
    ]


@hookimpl
def grain_conformance_cases() -> list[Any]:
    """Return the conformance cases, imported on demand."""
    cases: list[Any] = importlib.import_module("grain_arrayrecord.conformance").cases()
    return cases
