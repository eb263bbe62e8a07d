"""Environment variables decide which plugins may be used; a blocked plugin's code does not run."""

from __future__ import annotations

import sys

import pytest

from grain.plugins import PluginError, PluginManager, PluginUnusableError, Settings, Status


def manager_with(site, **environment: str) -> PluginManager:
    return PluginManager(
        settings=lambda: Settings.from_environment(environment), distributions=site.distributions
    )


def statuses(manager: PluginManager) -> dict[str, str]:
    return {plugin.name: plugin.status.value for plugin in manager.plugins()}


@pytest.fixture
def three(site):
    for name in ("grain-a", "grain-b", "grain-c"):
        site.add_source(name, public_names=(name[-1].upper(),))
    return site


def test_with_an_allow_list_every_other_plugin_is_blocked_without_being_imported(three) -> None:
    manager = manager_with(three, GRAIN_PLUGINS="a, grain-b")
    assert statuses(manager) == {"a": "available", "b": "available", "c": "blocked"}
    assert "grain_c._plugin" not in sys.modules
    with pytest.raises(PluginUnusableError, match=r"grain-c 1\.0.*GRAIN_PLUGINS allows only"):
        manager.resolve("C")


def test_disabled_plugins_are_blocked_by_plugin_or_distribution_name_in_any_spelling(three) -> None:
    manager = manager_with(three, GRAIN_PLUGINS_DISABLE="A,grain_B")
    assert statuses(manager) == {"a": "blocked", "b": "blocked", "c": "available"}
    assert {p.reason for p in manager.plugins() if p.reason} == {
        "GRAIN_PLUGINS_DISABLE names 'a'",
        "GRAIN_PLUGINS_DISABLE names 'grain-b'",
    }


def test_disabling_wins_over_allowing_and_a_star_means_all(three) -> None:
    manager = manager_with(three, GRAIN_PLUGINS="a,b", GRAIN_PLUGINS_DISABLE="a")
    assert statuses(manager) == {"a": "blocked", "b": "available", "c": "blocked"}
    assert set(statuses(manager_with(three, GRAIN_PLUGINS_DISABLE="*")).values()) == {"blocked"}


@pytest.mark.parametrize("empty", ["", " ", ","])
def test_an_empty_variable_is_the_same_as_none(three, empty: str) -> None:
    manager = manager_with(
        three,
        GRAIN_PLUGINS=empty,
        GRAIN_PLUGINS_DISABLE=empty,
        GRAIN_PLUGINS_STRICT=empty.strip(","),
    )
    assert set(statuses(manager).values()) == {"available"}


def test_a_blocked_plugin_is_not_a_problem_but_a_name_without_a_plugin_is(three) -> None:
    assert manager_with(three, GRAIN_PLUGINS_DISABLE="a").problems() == []
    (problem,) = manager_with(three, GRAIN_PLUGINS_DISABLE="parqet").problems()
    assert "GRAIN_PLUGINS_DISABLE names 'parqet'" in problem


def test_strict_raises_for_any_faulty_plugin_as_soon_as_one_is_used_but_still_lists(three) -> None:
    three.add("grain-bad", hooks="raise RuntimeError('nope')")
    lenient = manager_with(three, GRAIN_PLUGINS_STRICT="0")
    assert lenient.resolve("A")
    strict = manager_with(three, GRAIN_PLUGINS_STRICT="1")
    for use in (lambda: strict.resolve("A"), strict.public_names, lambda: strict.open("a://b")):
        with pytest.raises(PluginError, match=r"GRAIN_PLUGINS_STRICT.*(?s:.)*grain-bad 1\.0.*nope"):
            use()
    assert statuses(strict)["bad"] == "failed"


def test_strict_is_content_when_all_plugins_are_in_order(three) -> None:
    assert manager_with(three, GRAIN_PLUGINS_STRICT="yes").resolve("A")


def test_the_variables_are_read_when_plugins_are_first_needed(three, monkeypatch) -> None:
    manager = PluginManager(distributions=three.distributions)
    monkeypatch.setenv("GRAIN_PLUGINS_DISABLE", "grain-a")
    assert [p.name for p in manager.plugins() if p.status is Status.BLOCKED] == ["a"]


@pytest.mark.parametrize("distribution", ["grain-parquet-evil", "parquet", "Grain.Evil"])
def test_the_name_of_a_published_plugin_allows_no_other_distribution(distribution):
    settings = Settings(allowed=frozenset({"parquet"}))
    assert settings.blocks("parquet", "grain-parquet") == ""
    assert settings.blocks("parquet", "Grain_Parquet") == ""
    assert settings.blocks("parquet", distribution) == (
        "GRAIN_PLUGINS allows only 'parquet', and 'parquet' there means 'grain-parquet'"
    )


def test_a_distribution_with_the_entry_point_of_a_published_plugin_is_allowed_by_its_own_name():
    settings = Settings(allowed=frozenset({"grain-evil"}))
    assert settings.blocks("parquet", "Grain_Evil") == ""
