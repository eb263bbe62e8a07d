"""Tests of a plugin's specs, shared by every plugin: correct, and without loading its dependencies.

A test module has a subclass of `PluginOfASource` that names the package.
"""

from __future__ import annotations

import importlib
import subprocess
import sys
from typing import ClassVar


class PluginOfASource:
    """Tests of the specs of one package.

    Attributes:
        package: The module of the plugin.
        specs: The names of its specs.
        heavy: Modules that listing the specs must not import.
    """

    package: ClassVar[str]
    specs: ClassVar[list[str]]
    heavy: ClassVar[list[str]]

    def test_listing_the_specs_loads_no_dependencies(self):
        script = (
            f"import sys, {self.package}._plugin as plugin; plugin.grain_sources();"
            f"print([name for name in {self.heavy} if name in sys.modules])"
        )
        done = subprocess.run(
            [sys.executable, "-c", script], capture_output=True, text=True, check=True
        )
        assert done.stdout.strip() == "[]"

    def test_the_targets_are_exported_under_the_public_names(self):
        package = importlib.import_module(self.package)
        specs = importlib.import_module(f"{self.package}._plugin").grain_sources()
        assert [spec.name for spec in specs] == self.specs
        for spec in specs:
            module, _, name = spec.target.partition(":")
            target = getattr(importlib.import_module(module), name)
            for public in spec.public_names:
                assert getattr(package, public) is target
                assert public in dir(package)
