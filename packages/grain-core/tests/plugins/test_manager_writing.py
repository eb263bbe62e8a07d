"""Writers and decoders that specs name: found like sources, imported on use."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from grain.plugins import Kind, PluginManager, PluginSpec, PluginUnusableError, Settings, Status

BOTH = PluginSpec(
    name="both",
    target="builtins:list",
    kind=Kind.MAP_SOURCE,
    schemes=("both",),
    suffixes=(".both",),
    writer="os.path:join",
    decoder="os.path:basename",
)
NEITHER = PluginSpec(
    name="neither", target="builtins:list", kind=Kind.MAP_SOURCE, suffixes=(".neither",)
)
BROKEN = PluginSpec(
    name="broken",
    target="builtins:list",
    kind=Kind.MAP_SOURCE,
    suffixes=(".broken",),
    writer="not_there:write",
    install="pip install not-there",
)


@pytest.fixture
def manager() -> PluginManager:
    manager = PluginManager(settings=lambda: Settings.from_environment({}), distributions=list)
    for spec in (BOTH, NEITHER, BROKEN):
        manager.register(spec)
    return manager


def test_a_writer_is_found_by_suffix_or_scheme_with_the_path_it_gets(manager) -> None:
    assert manager.writer("/data/a.both") == (os.path.join, "/data/a.both")
    assert manager.writer(Path("a.both"))[1] == "a.both"
    assert manager.writer("both:///data/a.bin")[1] == "/data/a.bin"


def test_a_decoder_is_found_by_suffix_or_scheme_and_may_be_missing(manager) -> None:
    assert manager.decoder("a.both") is os.path.basename
    assert manager.decoder("a.neither") is None


def test_the_spec_behind_a_uri_is_found_without_an_import(manager) -> None:
    assert manager.source_spec("a.broken") is BROKEN
    assert {plugin.status for plugin in manager.plugins()} == {Status.AVAILABLE}


def test_a_format_without_a_writer_says_which_have_one(manager) -> None:
    with pytest.raises(PluginUnusableError, match=r"no writer for it.* '.both', '.broken'\.$"):
        manager.writer("a.neither")


def test_a_writer_that_cannot_be_imported_says_how_to_fix_it(manager) -> None:
    with pytest.raises(PluginUnusableError, match="pip install not-there"):
        manager.writer("a.broken")


def test_checking_all_plugins_imports_writers_too(manager) -> None:
    status = {plugin.name: plugin.status for plugin in manager.load_all()}
    assert status == {
        "both": Status.LOADED,
        "neither": Status.LOADED,
        "broken": Status.FAILED,
    }


@pytest.mark.parametrize("field", ["writer", "decoder"])
def test_a_spec_refuses_what_names_no_function(field) -> None:
    with pytest.raises(ValueError, match=field):
        PluginSpec(name="a", target="a:b", kind=Kind.MAP_SOURCE, **{field: "no function"})
    with pytest.raises(TypeError, match=field):
        PluginSpec(name="a", target="a:b", kind=Kind.MAP_SOURCE, **{field: None})
    with pytest.raises(ValueError, match="only sources have files"):
        PluginSpec(name="a", target="a:b", kind=Kind.TRANSFORM, **{field: "a:b"})
