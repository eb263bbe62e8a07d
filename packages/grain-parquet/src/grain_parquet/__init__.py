"""Parquet files as data sources for grain.

Names are imported on first use, so that discovering the plugin does not load pyarrow.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from grain_parquet.version import __version__

if TYPE_CHECKING:
    from grain_parquet.errors import ParquetFileError
    from grain_parquet.parquet_iter_dataset import ParquetIterDataset
    from grain_parquet.source import ParquetDataSource

__all__ = ["ParquetDataSource", "ParquetFileError", "ParquetIterDataset", "__version__"]

_HOMES = {
    "ParquetDataSource": "source",
    "ParquetFileError": "errors",
    "ParquetIterDataset": "parquet_iter_dataset",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
