"""Plugins' names in a module, read in every way that a program reads a name."""

from __future__ import annotations

import sys
import types

import pytest

from grain.plugins import (
    SOURCE_KINDS,
    Kind,
    PluginAttributeError,
    PluginAttributes,
    PluginNotInstalledError,
    PluginUnusableError,
)

MODULE = "module_with_plugin_names"


@pytest.fixture
def module(site, monkeypatch):
    """Return a function that makes a module with plugins' names, like `grain.sources`."""

    def make(**options: object) -> types.ModuleType:
        made = types.ModuleType(MODULE)
        made.OWN = "its own"
        manager = site.manager()
        attributes = PluginAttributes(MODULE, lambda: manager, **options)

        def __getattr__(name: str) -> object:
            return attributes.get(name)

        made.__getattr__ = __getattr__
        made.__dir__ = attributes.list
        monkeypatch.setitem(sys.modules, MODULE, made)
        return made

    return make


def test_an_installed_name_is_had_by_attribute_and_by_from_import(site, module) -> None:
    site.add_source("grain-good", public_names=("Good",))
    made = module()
    from module_with_plugin_names import Good  # type: ignore[import-not-found]

    assert made.Good is Good
    assert hasattr(made, "Good")
    assert "Good" in dir(made)
    assert "OWN" in dir(made)


def test_plain_access_to_a_missing_name_is_an_attribute_error_that_says_what_to_install(
    module,
) -> None:
    with pytest.raises(PluginAttributeError, match=r'pip install ".*parquet') as raised:
        module().ParquetDataSource  # noqa: B018
    assert isinstance(raised.value.__cause__, PluginNotInstalledError)


def test_hasattr_getattr_and_dir_see_that_a_missing_name_is_missing(module) -> None:
    made = module()
    assert not hasattr(made, "ParquetDataSource")
    assert getattr(made, "ParquetDataSource", "default") == "default"
    assert "ParquetDataSource" not in dir(made)


def test_from_import_of_a_missing_name_says_what_to_install(module) -> None:
    module()
    with pytest.raises(ImportError, match=r'pip install ".*parquet'):
        from module_with_plugin_names import ParquetDataSource  # noqa: F401


def test_from_import_says_so_among_several_names_under_a_tracer_and_in_compiled_text(
    module,
) -> None:
    module()
    before = sys.gettrace()
    sys.settrace(lambda *_: lambda *_: None)
    try:
        with pytest.raises(PluginNotInstalledError):
            exec(f"from {MODULE} import OWN, ParquetDataSource as P")
    finally:
        sys.settrace(before)


def test_the_third_time_is_like_the_first(module) -> None:
    """Interpreters specialise their bytecode as code gets warm; the result must not change."""
    made = module()
    for _ in range(100):
        with pytest.raises(PluginNotInstalledError):
            from module_with_plugin_names import ParquetDataSource  # noqa: F401
        assert not hasattr(made, "ParquetDataSource")


def test_a_failed_plugin_is_explained_by_attribute_and_by_from_import(site, module) -> None:
    site.add("grain-parquet", hooks="raise RuntimeError('broken in two')")
    made = module()
    assert not hasattr(made, "ParquetDataSource")
    with pytest.raises(AttributeError, match="broken in two"):
        made.ParquetDataSource  # noqa: B018
    with pytest.raises(PluginUnusableError, match="broken in two"):
        from module_with_plugin_names import ParquetDataSource  # noqa: F401


def test_an_unknown_name_is_an_ordinary_attribute_or_import_error(module) -> None:
    made = module()
    with pytest.raises(
        AttributeError, match=f"module '{MODULE}' has no attribute 'Nothing'"
    ) as raised:
        made.Nothing  # noqa: B018
    assert raised.value.name == "Nothing"
    with pytest.raises(ImportError, match="cannot import name 'Nothing'"):
        from module_with_plugin_names import Nothing  # noqa: F401


def test_private_names_do_not_start_a_search_for_plugins(site, module, monkeypatch) -> None:
    monkeypatch.setattr(site, "distributions", lambda: pytest.fail("looked for plugins"))
    assert not hasattr(module(), "__wrapped__")


def test_only_names_of_the_modules_kinds_are_its_attributes(site, module) -> None:
    site.add_source("grain-good", public_names=("Good",))
    site.add(
        "grain-change",
        hooks="@hookimpl\ndef grain_transforms():\n"
        "    return [PluginSpec(name='c', target='builtins:list', kind=Kind.TRANSFORM,"
        " public_names=('Change',))]",
    )
    made = module(kinds={Kind.TRANSFORM})
    assert made.Change is list
    assert not hasattr(made, "Good")
    assert "Good" not in dir(made)
    with pytest.raises(AttributeError, match="has no attribute 'ParquetDataSource'"):
        made.ParquetDataSource  # noqa: B018
    made = module(kinds=SOURCE_KINDS)
    assert made.Good
    assert not hasattr(made, "Change")


def test_a_module_may_limit_itself_to_some_names_and_looks_for_plugins_only_for_those(
    site, module, monkeypatch
) -> None:
    site.add_source("grain-parquet", public_names=("ParquetDataSource",))
    site.add_source("grain-good", public_names=("Good",))
    made = module(only=["ParquetDataSource"])
    assert made.ParquetDataSource
    assert "ParquetDataSource" in dir(made)
    assert "Good" not in dir(made)
    monkeypatch.setattr(site, "distributions", lambda: pytest.fail("looked for plugins"))
    assert not hasattr(module(only=["ParquetDataSource"]), "Good")
