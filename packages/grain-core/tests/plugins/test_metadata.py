"""The quick reader of what is installed sees what the standard library's reader sees."""

from __future__ import annotations

import sys
import zipfile
from importlib import metadata

import pytest

from grain.plugins import PluginManager, Status
from grain.plugins.metadata import (
    InfoDirectory,
    entry_points,
    headers_of,
    installed_distributions,
)


def test_the_distributions_of_this_very_environment_are_the_same() -> None:
    ours = {(h["name"][0], h["version"][0]) for h in map(headers_of, installed_distributions())}
    theirs = {(d.metadata["Name"], d.version) for d in metadata.distributions()}
    assert ours == theirs
    assert any(name == "pluggy" for name, _ in ours)


def test_the_entry_points_of_this_very_environment_are_the_same() -> None:
    for distribution in metadata.distributions():
        text = distribution.read_text("entry_points.txt")
        groups = {point.group for point in distribution.entry_points}
        for group in groups:
            ours = entry_points(text or "", group)
            theirs = [
                (point.name, point.value.partition("[")[0].strip())
                for point in distribution.entry_points.select(group=group)
            ]
            assert ours == theirs


def test_the_requirements_are_the_same() -> None:
    ours = headers_of(next(d for d in installed_distributions() if "pytest-" in str(d)))
    assert sorted(ours["requires-dist"]) == sorted(metadata.requires(ours["name"][0]) or [])


def test_comments_and_other_groups_are_passed_over() -> None:
    text = "# a comment\n[a]\nx = y\n\n; another\n[ b ]\n  n=m:o.p  \n[c]\nno equals sign\n"
    assert entry_points(text, "b") == [("n", "m:o.p")]
    assert entry_points(text, "d") == []
    with pytest.raises(ValueError, match="no equals sign"):
        entry_points(text, "c")


def test_a_plugin_in_an_archive_on_the_path_is_found_by_the_standard_reader(
    tmp_path, monkeypatch
) -> None:
    archive = tmp_path / "plugins.zip"
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr(
            "zipped_plugin.py",
            "from grain.plugins import Kind, PluginSpec, hookimpl\n"
            "@hookimpl\n"
            "def grain_sources():\n"
            "    return [PluginSpec(name='z', target='builtins:list', kind=Kind.MAP_SOURCE,"
            " public_names=('Zipped',))]\n",
        )
        info = "grain_zipped-1.0.dist-info"
        file.writestr(
            f"{info}/METADATA", "Metadata-Version: 2.1\nName: grain-zipped\nVersion: 1.0\n"
        )
        file.writestr(f"{info}/entry_points.txt", "[grain.plugins]\nzipped = zipped_plugin\n")
    monkeypatch.syspath_prepend(str(archive))
    manager = PluginManager()
    assert manager.resolve("Zipped") is list
    (plugin,) = (p for p in manager.plugins() if p.name == "zipped")
    assert (plugin.distribution, plugin.status) == ("grain-zipped", Status.LOADED)
    monkeypatch.delitem(sys.modules, "zipped_plugin")


def test_a_finder_with_metadata_is_used_too(monkeypatch, tmp_path) -> None:
    (tmp_path / "x.dist-info").mkdir()
    (tmp_path / "x.dist-info" / "METADATA").write_text("Name: from-a-finder\nVersion: 1\n")

    class Finder:
        def find_spec(self, *_: object) -> None:
            return None

        def find_distributions(self, context: object) -> list[metadata.Distribution]:
            return [metadata.PathDistribution(tmp_path / "x.dist-info")]

    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path, Finder()])
    names = [name for d in installed_distributions() for name in headers_of(d)["name"]]
    assert "from-a-finder" in names


def test_paths_that_do_not_exist_and_files_that_cannot_be_read_are_passed_over(tmp_path) -> None:
    (tmp_path / "odd-1.0.egg-info").write_text("Name: odd\nVersion: 1.0\n")
    found = list(installed_distributions([str(tmp_path / "nowhere"), str(tmp_path)]))
    assert found == [InfoDirectory(str(tmp_path / "odd-1.0.egg-info"))]
    assert found[0].read_text("entry_points.txt") is None
    assert headers_of(found[0]) == {"name": [], "version": [], "requires-dist": []}
