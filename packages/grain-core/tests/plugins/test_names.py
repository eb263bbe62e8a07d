"""A name that two plugins claim belongs to neither, whatever the order they are found in."""

from __future__ import annotations

import pytest

import grain
from grain.plugins import DuplicatePluginError, PluginManager, PluginSpec, Status, UnknownNameError
from grain.plugins.first_party import OWN_NAMES


@pytest.fixture(params=["one first", "other first"])
def manager(site, request) -> PluginManager:
    """Two plugins that share a name, a scheme and a suffix, and a third that shares nothing."""
    shared = {"public_names": ("Both", "OnlyOne"), "schemes": ("both",), "suffixes": (".both",)}
    site.add_source("grain-one", **shared)
    site.add_source("grain-other", **{**shared, "public_names": ("Both", "OnlyOther")})
    site.add_source("grain-third", public_names=("Third",))
    found = site.distributions()
    if request.param == "other first":
        found = found[::-1]
    return PluginManager(distributions=lambda: found)


def test_a_contested_name_is_refused_and_the_error_lists_both(manager) -> None:
    with pytest.raises(DuplicatePluginError) as raised:
        manager.resolve("Both")
    for words in ("public name 'Both'", "grain-one 1.0", "grain-other 1.0", "pip uninstall"):
        assert words in str(raised.value)


def test_contested_schemes_and_suffixes_are_refused_too(manager) -> None:
    with pytest.raises(DuplicatePluginError, match=r"scheme 'both'.*grain-one.*grain-other"):
        manager.open("both://x")
    with pytest.raises(DuplicatePluginError, match=r"suffix '\.both'.*grain-one.*grain-other"):
        manager.open("x.both")


def test_names_that_are_not_contested_keep_working(manager) -> None:
    assert manager.resolve("OnlyOne").__module__ == "grain_one.source"
    assert manager.resolve("OnlyOther").__module__ == "grain_other.source"
    assert manager.resolve("Third").__module__ == "grain_third.source"
    assert manager.public_names() == ["OnlyOne", "OnlyOther", "Third"]


def test_both_are_reported_and_each_names_the_other(manager) -> None:
    plugins = {plugin.name: plugin for plugin in manager.plugins()}
    assert plugins["third"].status is Status.AVAILABLE
    for name, other in (("one", "grain-other 1.0"), ("other", "grain-one 1.0")):
        assert plugins[name].status is Status.DUPLICATE
        assert other in plugins[name].reason
        assert plugins[name].fix.startswith("pip uninstall grain-one or grain-other")
    assert len(manager.problems()) == 2
    assert {p.name: p.status for p in manager.load_all()}["one"] is Status.DUPLICATE


def test_two_distributions_with_one_plugin_name_are_both_reported(site) -> None:
    site.add("grain-a", entry_point="same", hooks=_spec("a"))
    site.add("grain-b", entry_point="same", hooks=_spec("b"))
    manager = site.manager()
    assert [(p.name, p.status) for p in manager.plugins()] == [("same", Status.DUPLICATE)] * 2
    with pytest.raises(DuplicatePluginError, match=r"plugin name 'same'.*grain-a.*grain-b"):
        manager.conformance_cases("same")


def test_one_distribution_may_not_claim_a_name_twice_through_two_entry_points(site) -> None:
    site.add(
        "grain-a",
        entry_points_text="[grain.plugins]\nx = grain_a._plugin\ny = grain_a.again\n",
        hooks=_spec("a"),
        modules={"again": "from grain_a._plugin import grain_sources"},
    )
    manager = site.manager()
    assert [p.status for p in manager.plugins()] == [Status.DUPLICATE] * 2
    with pytest.raises(DuplicatePluginError, match=r"plugin 'x'.*plugin 'y'"):
        manager.resolve("A")


def test_disabling_one_of_two_by_its_distribution_settles_it(site) -> None:
    site.add_source("grain-one", public_names=("Both",))
    site.add_source("grain-other", public_names=("Both",))
    manager = site.manager(disabled=frozenset({"grain-one"}))
    assert manager.resolve("Both").__module__ == "grain_other.source"
    assert manager.problems() == []


def test_a_plugin_cannot_take_a_name_the_core_defines(site) -> None:
    site.add_source("grain-thief", public_names=("RangeDataSource", "Loot"))
    manager = site.manager()
    (plugin,) = manager.plugins()
    assert plugin.status is Status.DUPLICATE
    assert "grain-core itself (grain.sources)" in plugin.reason
    assert manager.public_names() == ["Loot"]


@pytest.mark.parametrize("module", [grain.sources, grain.transforms])
def test_all_names_of_the_core_are_kept_from_plugins(module) -> None:
    kept = {name for name, home in OWN_NAMES.items() if home == module.__name__}
    assert kept == set(module.__all__)


def _spec(name: str) -> str:
    return f"""
@hookimpl
def grain_sources():
    return [PluginSpec(name="{name}", target="builtins:list", kind=Kind.MAP_SOURCE,
                       public_names=("{name.upper()}",))]
"""


# Code without a package.

MINE = PluginSpec(
    name="mine",
    target="builtins:dict",
    kind="map-source",
    public_names=("Mine",),
    schemes=("mine",),
)


def test_registered_code_is_found_like_a_plugin_and_can_be_taken_back(site) -> None:
    manager = site.manager()
    manager.register(MINE)
    assert manager.resolve("Mine") is dict
    (plugin,) = manager.plugins()
    assert (plugin.distribution, plugin.status) == (None, Status.LOADED)
    manager.unregister("mine")
    assert manager.plugins() == ()
    with pytest.raises(UnknownNameError):
        manager.resolve("Mine")
    with pytest.raises(UnknownNameError, match="'mine'"):
        manager.unregister("mine")


def test_registering_the_same_spec_again_changes_nothing_even_after_use(site) -> None:
    manager = site.manager()
    manager.register(MINE)
    manager.resolve("Mine")
    manager.register(MINE)
    assert len(manager.plugins()) == 1


def test_registering_another_spec_under_a_taken_name_is_refused_at_once(site) -> None:
    manager = site.manager()
    manager.register(MINE)
    with pytest.raises(DuplicatePluginError, match=r"unregister\('mine'\)"):
        manager.register(PluginSpec(name="mine", target="builtins:list", kind="map-source"))
    with pytest.raises(DuplicatePluginError, match="scheme 'mine'"):
        manager.register(
            PluginSpec(name="next", target="a:b", kind="map-source", schemes=("mine",))
        )
    assert manager.resolve("Mine") is dict


def test_registered_code_does_not_silently_win_over_an_installed_plugin(site) -> None:
    site.add_source("grain-rival", public_names=("Mine",))
    early, late = site.manager(), site.manager()
    early.register(MINE)
    with pytest.raises(DuplicatePluginError, match="grain-rival"):
        early.resolve("Mine")
    late.plugins()
    with pytest.raises(DuplicatePluginError, match="grain-rival"):
        late.register(MINE)


def test_only_specs_can_be_registered(site) -> None:
    with pytest.raises(TypeError, match="PluginSpec"):
        site.manager().register("builtins:dict")


def test_registered_code_survives_a_refresh(site) -> None:
    manager = site.manager()
    manager.register(MINE)
    manager.refresh()
    assert manager.resolve("Mine") is dict
