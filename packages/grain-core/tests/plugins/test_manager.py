"""Using a plugin: its target is imported; an error names provider, version, reason and fix."""

from __future__ import annotations

import pytest

from grain.plugins import (
    KNOWN_NAMES,
    PluginError,
    PluginNotInstalledError,
    PluginUnusableError,
    Status,
    UnknownNameError,
)
from grain.plugins.first_party import KNOWN_PLUGINS
from grain.plugins.install_commands import install_command


def test_a_target_that_cannot_be_imported_names_provider_version_reason_and_fix(site) -> None:
    site.add_source("grain-lack", public_names=("Lack",), install='pip install "grain-core[lack]"')
    source = site.path / "grain_lack" / "source.py"
    good = source.read_text()
    source.write_text("import not_installed_dependency")
    manager = site.manager()
    assert manager.public_names() == ["Lack"]
    with pytest.raises(PluginUnusableError) as raised:
        manager.resolve("Lack")
    for words in (
        "'Lack'",
        "grain-lack 1.0",
        "'lack'",
        "No module named 'not_installed_dependency'",
        'pip install "grain-core[lack]"',
    ):
        assert words in str(raised.value)
    assert isinstance(raised.value.__cause__, ModuleNotFoundError)
    assert [p.status for p in manager.plugins()] == [Status.FAILED]
    # The dependency may be installed meanwhile, in a notebook for instance.
    source.write_text(good + "\n# other size than before\n")
    assert manager.resolve("Lack").__name__ == "Source"
    assert [(p.status, p.reason) for p in manager.plugins()] == [(Status.LOADED, "")]


def test_a_target_that_does_not_exist_is_a_failure_of_that_plugin(site) -> None:
    site.add_source("grain-wrong", public_names=("Wrong",), target="grain_wrong.source:Sauce")
    manager = site.manager()
    with pytest.raises(PluginUnusableError, match=r"no attribute 'Sauce'.*upgrade grain-wrong"):
        manager.resolve("Wrong")


def test_one_faulty_target_does_not_take_its_siblings_along(site) -> None:
    site.add(
        "grain-half",
        hooks="""
@hookimpl
def grain_sources():
    return [
        PluginSpec(name="a", target="no.such:A", kind=Kind.MAP_SOURCE, public_names=("A",)),
        PluginSpec(name="b", target="builtins:list", kind=Kind.MAP_SOURCE, public_names=("B",)),
    ]
""",
    )
    manager = site.manager()
    with pytest.raises(PluginUnusableError):
        manager.resolve("A")
    assert manager.resolve("B") is list
    (plugin,) = manager.load_all()
    assert plugin.status is Status.FAILED
    assert "no.such:A" in plugin.reason
    manager.refresh()
    manager.resolve("B")
    assert [plugin.status for plugin in manager.plugins()] == [Status.LOADED]


def test_loading_everything_reports_each_plugin_and_raises_for_none(site) -> None:
    site.add_source("grain-good")
    site.add_source("grain-wrong", target="grain_wrong.nowhere:Source")
    site.add("grain-bad", hooks="raise RuntimeError")
    assert {p.name: p.status for p in site.manager().load_all()} == {
        "bad": Status.FAILED,
        "good": Status.LOADED,
        "wrong": Status.FAILED,
    }


@pytest.mark.parametrize("known", KNOWN_PLUGINS, ids=lambda known: known.name)
def test_a_published_name_that_is_not_installed_says_what_to_install(site, known) -> None:
    manager = site.manager()
    for name in known.public_names:
        with pytest.raises(PluginNotInstalledError) as raised:
            manager.resolve(name)
        assert install_command(known) in str(raised.value)
        assert known.distribution in str(raised.value)


def test_the_names_of_the_published_plugins_are_known() -> None:
    assert {"ArrayRecordDataSource", "ParquetDataSource", "ParquetIterDataset"} <= set(KNOWN_NAMES)
    assert {"TfdsDataSource", "InMemoryDataSource", "SharedMemoryDataSource"} <= set(KNOWN_NAMES)


def test_a_published_plugin_that_failed_is_named_instead_of_an_install_command(site) -> None:
    site.add("grain-parquet", version="1.2", hooks="raise RuntimeError('half an upgrade')")
    with pytest.raises(PluginUnusableError) as raised:
        site.manager().resolve("ParquetDataSource")
    assert "grain-parquet 1.2" in str(raised.value)
    assert "half an upgrade" in str(raised.value)
    assert isinstance(raised.value.__cause__, RuntimeError)


def test_a_published_plugin_too_old_to_provide_the_name_is_to_be_upgraded(site) -> None:
    site.add_source("grain-parquet", public_names=("ParquetIterDataset",))
    with pytest.raises(PluginUnusableError, match=r"pip install --upgrade .*grain-parquet"):
        site.manager().resolve("ParquetDataSource")


def test_an_unknown_name_names_plugins_whose_specs_could_not_be_read(site) -> None:
    site.add("grain-lance", version="0.3", hooks="raise RuntimeError('no luck')")
    with pytest.raises(PluginUnusableError) as raised:
        site.manager().resolve("LanceDataSource")
    assert "'LanceDataSource'" in str(raised.value)
    assert "grain-lance 0.3" in str(raised.value)
    assert "no luck" in str(raised.value)
    assert isinstance(raised.value.__cause__, RuntimeError)


def test_an_unknown_name_lists_what_there_is_when_all_is_well(site) -> None:
    site.add_source("grain-good", public_names=("Good",))
    with pytest.raises(UnknownNameError, match=r"'Goood'.*Installed: 'Good'"):
        site.manager().resolve("Goood")


def test_the_spec_is_had_by_public_name_or_spec_name_without_an_import(site) -> None:
    site.add_source("grain-good", public_names=("Good",), target="no.such.module:Good")
    manager = site.manager()
    assert manager.spec("Good") is manager.spec("good")
    with pytest.raises(PluginNotInstalledError, match="grain-tfds"):
        manager.spec("TfdsDataSource")
    with pytest.raises(UnknownNameError):
        manager.spec("nothing")


def test_conformance_cases_are_read_from_the_plugin_only_on_request(site) -> None:
    site.add(
        "grain-proven",
        hooks="""
@hookimpl
def grain_sources():
    return [PluginSpec(name="p", target="a:b", kind=Kind.MAP_SOURCE)]

@hookimpl
def grain_conformance_cases():
    import grain_proven.cases
    return grain_proven.cases.CASES
""",
        modules={"cases": "CASES = ['one', 'two']"},
    )
    site.add_source("grain-unproven")
    manager = site.manager()
    manager.plugins()
    assert manager.conformance_cases("proven") == ["one", "two"]
    assert manager.conformance_cases("unproven") == []
    with pytest.raises(UnknownNameError, match="'provn'"):
        manager.conformance_cases("provn")


def test_conformance_cases_that_raise_are_an_error_about_that_plugin(site) -> None:
    site.add(
        "grain-proven",
        version="2.0",
        hooks="""
@hookimpl
def grain_sources():
    return [PluginSpec(name="p", target="a:b", kind=Kind.MAP_SOURCE)]

@hookimpl
def grain_conformance_cases():
    raise LookupError("lost")
""",
    )
    with pytest.raises(
        PluginUnusableError, match=r"grain-proven 2\.0.*LookupError: lost"
    ) as raised:
        site.manager().conformance_cases("proven")
    assert isinstance(raised.value.__cause__, LookupError)


def test_every_plugin_error_can_be_caught_as_an_import_error() -> None:
    assert issubclass(PluginError, ImportError)
