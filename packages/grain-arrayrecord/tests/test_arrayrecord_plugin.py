"""The plugin describes itself without loading what it needs to read."""

from __future__ import annotations

from tests.source_plugin import PluginOfASource


class TestPlugin(PluginOfASource):
    package = "grain_arrayrecord"
    specs = ["arrayrecord"]
    heavy = ["array_record"]
