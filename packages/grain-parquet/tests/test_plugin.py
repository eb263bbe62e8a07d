"""The plugin is described without loading its dependencies."""

from __future__ import annotations

from tests.source_plugin import PluginOfASource


class TestPlugin(PluginOfASource):
    package = "grain_parquet"
    specs = ["parquet", "parquet-iter"]
    heavy = ["pyarrow", "fsspec"]
