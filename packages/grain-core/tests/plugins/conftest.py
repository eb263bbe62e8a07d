"""A directory of real, tiny distributions that a test fills, and a plugin manager that reads it."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from grain.plugins import PluginManager, Settings
from grain.plugins.metadata import Distribution, installed_distributions

HOOKS = """
from grain.plugins import Capability, Kind, PluginSpec, hookimpl
"""


class Site:
    """Distributions on disk: metadata, entry points and modules, as an installer leaves them."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def add(
        self,
        distribution: str,
        *,
        hooks: str = "",
        version: str = "1.0",
        entry_point: str | None = None,
        requires: tuple[str, ...] = ("grain-core>=1,<2",),
        modules: Mapping[str, str] | None = None,
        entry_points_text: str | None = None,
        metadata_text: str | None = None,
    ) -> str:
        """Install a distribution; return the name of its hook module."""
        package = distribution.replace("-", "_")
        name = entry_point or distribution.removeprefix("grain-")
        info = self.path / f"{package}-{version}.dist-info"
        info.mkdir()
        (info / "entry_points.txt").write_text(
            entry_points_text or f"[grain.plugins]\n{name} = {package}._plugin\n"
        )
        lines = ["Metadata-Version: 2.1", f"Name: {distribution}", f"Version: {version}"]
        lines += [f"Requires-Dist: {requirement}" for requirement in requires]
        (info / "METADATA").write_text(metadata_text or "\n".join([*lines, "", "Words."]))
        (self.path / package).mkdir()
        (self.path / package / "__init__.py").touch()
        for module, source in {"_plugin": HOOKS + hooks, **(modules or {})}.items():
            (self.path / package / f"{module}.py").write_text(textwrap.dedent(source))
        return f"{package}._plugin"

    def add_source(self, distribution: str, **fields: object) -> None:
        """Install a plugin with one working map source, described by `fields`."""
        package = distribution.replace("-", "_")
        spec = {
            "name": distribution.removeprefix("grain-"),
            "target": f"{package}.source:Source",
            "kind": "map-source",
            **fields,
        }
        self.add(
            distribution,
            hooks=f"@hookimpl\ndef grain_sources():\n    return [PluginSpec(**{spec!r})]\n",
            modules={
                "source": """
                class Source:
                    def __init__(self, path, **options):
                        self.path, self.options = path, options
                """
            },
        )

    def distributions(self) -> list[Distribution]:
        return list(installed_distributions([str(self.path)]))

    def manager(self, core: str = "1.0.0", **settings: object) -> PluginManager:
        return PluginManager(
            settings=lambda: Settings(**settings), distributions=self.distributions, core=core
        )


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    """An empty site directory on `sys.path`; what is imported from it is forgotten afterwards."""
    path = tmp_path / "site"
    path.mkdir()
    monkeypatch.syspath_prepend(str(path))
    # A plugin of that name may be installed for real, and imported by another test already.
    for name in [name for name in sys.modules if name.startswith("grain_")]:
        monkeypatch.delitem(sys.modules, name)
    before = set(sys.modules)
    yield Site(path)
    for name in set(sys.modules) - before:
        if str(path) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]
