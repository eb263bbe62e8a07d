"""The plugin is described without loading its dependencies."""

from __future__ import annotations

from tests.source_plugin import PluginOfASource


class TestPlugin(PluginOfASource):
    package = "grain_inmemory"
    specs = ["inmemory"]
    heavy = ["multiprocessing.shared_memory"]
