"""The plugin describes itself without loading what it needs to read."""

from __future__ import annotations

import importlib
import subprocess
import sys

from grain_tfds import _plugin


def test_describing_the_plugin_loads_none_of_its_dependencies():
    script = (
        "import sys, grain_tfds._plugin as plugin; plugin.grain_sources();"
        "heavy = ['tensorflow_datasets', 'array_record', 'tensorflow'];"
        "print([name for name in heavy if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


def test_the_targets_are_what_the_public_names_say():
    specs = _plugin.grain_sources()
    assert [spec.name for spec in specs] == ["tfds"]
    for spec in specs:
        module, _, name = spec.target.partition(":")
        target = getattr(importlib.import_module(module), name)
        package = importlib.import_module("grain_tfds")
        for public in spec.public_names:
            assert getattr(package, public) is target
            assert public in dir(package)
