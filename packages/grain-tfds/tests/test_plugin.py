"""The plugin is described without loading its dependencies."""

from __future__ import annotations

from tests.source_plugin import PluginOfASource


class TestPlugin(PluginOfASource):
    package = "grain_tfds"
    specs = ["tfds"]
    heavy = ["tensorflow_datasets", "array_record", "tensorflow"]
