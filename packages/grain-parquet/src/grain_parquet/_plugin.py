"""Plugin specs of this package; importing this module does not load pyarrow."""

from __future__ import annotations

import importlib
from typing import Any

from grain.plugins import Capability, Kind, PluginSpec, hookimpl

_INSTALL = 'pip install "grain-core[parquet]>=1,<2"'


@hookimpl
def grain_sources() -> list[PluginSpec]:
    return [
        PluginSpec(
            name="parquet",
            target="grain_parquet.source:ParquetDataSource",
            kind=Kind.MAP_SOURCE,
            public_names=("ParquetDataSource",),
            schemes=("parquet",),
            suffixes=(".parquet",),
            capabilities=frozenset(
                {
                    Capability.BATCHED_READ,
                    Capability.COLUMNS,
                    Capability.THREAD_SAFE,
                    Capability.REMOTE_PATHS,
                    Capability.GLOBS,
                    Capability.CLOSABLE,
                }
            ),
            summary="Random access to the rows of Parquet files, by row group.",
            install=_INSTALL,
            writer="grain_parquet.writer:write_elements",
        ),
        PluginSpec(
            name="parquet-iter",
            target="grain_parquet.parquet_iter_dataset:ParquetIterDataset",
            kind=Kind.ITER_SOURCE,
            public_names=("ParquetIterDataset",),
            capabilities=frozenset({Capability.REMOTE_PATHS, Capability.GLOBS}),
            summary="The rows of Parquet files in order, several files interleaved.",
            install=_INSTALL,
        ),
    ]


@hookimpl
def grain_conformance_cases() -> list[Any]:
    """Return the conformance cases, imported on demand."""
    cases: list[Any] = importlib.import_module("grain_parquet.conformance").cases()
    return cases
