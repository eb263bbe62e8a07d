"""Plugin specs of this package; importing this module does not load tensorflow-datasets."""

from __future__ import annotations

import importlib
from typing import Any

from grain.plugins import Capability, Kind, PluginSpec, hookimpl


@hookimpl
def grain_sources() -> list[PluginSpec]:
    return [
        PluginSpec(
            name="tfds",
            target="grain_tfds.source:TfdsDataSource",
            kind=Kind.MAP_SOURCE,
            public_names=("TfdsDataSource",),
            schemes=("tfds",),
            capabilities=frozenset(
                {Capability.BATCHED_READ, Capability.THREAD_SAFE, Capability.CLOSABLE}
            ),
            summary="Examples of TensorFlow Datasets in ArrayRecord form, without TensorFlow.",
            install='pip install "grain-core[tfds]>=1,<2"',
        )
    ]


@hookimpl
def grain_conformance_cases() -> list[Any]:
    """Return the conformance cases, imported on demand."""
    cases: list[Any] = importlib.import_module("grain_tfds.conformance").cases()
    return cases
