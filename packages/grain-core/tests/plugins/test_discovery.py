"""Each plugin is read in isolation: a broken plugin changes its own status only."""

from __future__ import annotations

import re
import sys
import threading

import pytest

from grain.plugins import Kind, Plugin, PluginManager, PluginUnusableError, Status


def statuses(manager: PluginManager) -> dict[str, Status]:
    return {plugin.name: plugin.status for plugin in manager.plugins()}


def plugin_of(manager: PluginManager, name: str) -> Plugin:
    (found,) = (plugin for plugin in manager.plugins() if plugin.name == name)
    return found


def test_without_plugins_there_is_an_empty_list_and_no_problem(site) -> None:
    manager = site.manager()
    assert manager.plugins() == ()
    assert manager.problems() == []
    assert manager.public_names() == []
    assert len(manager.not_installed()) == 5


def test_a_good_plugin_is_available_until_its_target_is_used_and_then_loaded(site) -> None:
    site.add_source("grain-good", public_names=("Good",), summary="Good things.")
    manager = site.manager()
    plugin = plugin_of(manager, "good")
    assert (plugin.distribution, plugin.version) == ("grain-good", "1.0")
    assert plugin.status is Status.AVAILABLE
    assert "grain_good.source" not in sys.modules
    source = manager.resolve("Good")
    assert source is sys.modules["grain_good.source"].Source
    assert plugin_of(manager, "good").status is Status.LOADED


def test_no_terminal_obeys_the_metadata_of_a_broken_plugin(site) -> None:
    """The names of a distribution, its version and its modules are shown with escape sequences."""
    site.add(
        "grain-escape",
        metadata_text=(
            "Metadata-Version: 2.1\nName: evil\x1b[31mRED\x1b]0;title\x07\nVersion: 1\x1b[2J\n"
            "Requires-Dist: grain-core>=1,<2\n"
        ),
        entry_points_text="[grain.plugins]\nesc\x1b[31mx = nowhere\x1b[31m.plugin\n",
    )
    site.add(
        "grain-old",
        metadata_text="Metadata-Version: 2.1\nName: old\x1b[31m\nVersion: 1\n"
        "Requires-Dist: grain-core>=1\x1b[31m,<1\n",
    )
    with pytest.raises(PluginUnusableError) as caught:
        site.manager().resolve("Nope")
    text = str(caught.value)
    assert text.isprintable(), text
    assert r"evil\x1b[31mRED" in text
    assert "pip install --upgrade --force-reinstall evil\\x1b" in text
    for plugin in site.manager().plugins():
        assert f"{plugin.provider} {plugin.module} {plugin.reason} {plugin.fix}".isprintable()


@pytest.mark.parametrize(
    ("hooks", "words"),
    [
        ("import no_such_dependency", "No module named 'no_such_dependency'"),
        ("raise RuntimeError('at import\\nand more')", "RuntimeError: at import"),
        ("import sys; sys.exit('a script, not a module')", "SystemExit: a script"),
        ("this is no Python", "SyntaxError"),
        ("raise GeneratorExit", "GeneratorExit, which is no error"),
        ("class Skip(BaseException): pass\nraise Skip('not here')", "Skip, which is no error"),
        (
            "class Skip(BaseException): pass\n@hookimpl\ndef grain_sources():\n    raise Skip('x')",
            "Skip, which is no error: x",
        ),
        (
            "class Mute(Exception):\n    def __str__(self): raise ValueError\nraise Mute",
            "Mute: its message cannot be read",
        ),
        ("raise ValueError('\\x1b[31mred\\x00')", r"ValueError: \x1b[31mred\x00"),
        ("@hookimpl\ndef grain_sources():\n    raise KeyError('hook')", "KeyError: 'hook'"),
        (
            "@hookimpl\ndef grain_sources():\n    yield from ()\n    raise KeyError('late')",
            "KeyError: 'late'",
        ),
        ("@hookimpl\ndef grain_sources():\n    return ['grain_x:Source']", "expected a PluginSpec"),
        ("@hookimpl\ndef grain_sources():\n    return 7", "TypeError"),
        ("@hookimpl\ndef grain_sorces():\n    return []", "grain_sorces"),
        ("@hookimpl\ndef grain_sources(path):\n    return []", "path"),
        ("def grain_sources():\n    return []", "no hook found"),
        (
            "@hookimpl\ndef grain_sources():\n"
            "    return [PluginSpec(name='t', target='a:b', kind=Kind.TRANSFORM)]",
            "of kind 'transform', expected 'iter-source' or 'map-source'",
        ),
        (
            "@hookimpl\ndef grain_sources():\n"
            "    return [PluginSpec(name=n, target='a:b', kind=Kind.MAP_SOURCE,\n"
            "                       public_names=('Twice',)) for n in 'xy']",
            "'Twice'",
        ),
        ("@hookimpl\ndef grain_sources():\n    return [PluginSpec(name='x')]", "target"),
    ],
)
def test_a_plugin_that_cannot_be_read_is_failed_and_the_others_work(
    site, hooks: str, words: str
) -> None:
    site.add("grain-bad", hooks=hooks)
    site.add_source("grain-good", public_names=("Good",))
    manager = site.manager()
    bad = plugin_of(manager, "bad")
    assert bad.status is Status.FAILED
    assert words in bad.reason
    assert "\n" not in bad.reason
    assert "grain-bad" in bad.fix
    assert bad.error is not None
    assert manager.resolve("Good").__name__ == "Source"
    assert manager.public_names() == ["Good"]


def test_a_keyboard_interrupt_during_discovery_is_the_users_and_discovery_can_be_done_again(
    site, monkeypatch
) -> None:
    site.add("grain-slow", hooks="import builtins; builtins.interrupt_me()")
    site.add_source("grain-good", public_names=("Good",))
    manager = site.manager()

    def interrupt() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("builtins.interrupt_me", interrupt, raising=False)
    with pytest.raises(KeyboardInterrupt):
        manager.plugins()
    monkeypatch.setattr("builtins.interrupt_me", lambda: None)
    assert statuses(manager) == {"good": Status.AVAILABLE, "slow": Status.FAILED}


def test_a_plugin_that_requires_another_core_is_not_imported(site) -> None:
    module = site.add("grain-old", requires=("numpy", "grain-core>=99"), hooks="raise RuntimeError")
    manager = site.manager(core="1.0.0")
    plugin = plugin_of(manager, "old")
    assert plugin.status is Status.INCOMPATIBLE
    assert "grain-core>=99" in plugin.reason
    assert "grain-core 1.0.0" in plugin.reason
    assert re.fullmatch(r"(uv )?pip install --upgrade .*grain-core\S* grain-old", plugin.fix)
    assert module not in sys.modules


def test_a_plugin_written_for_a_later_contract_is_incompatible(site) -> None:
    site.add_source("grain-later", public_names=("Later",), api=2)
    manager = site.manager()
    plugin = plugin_of(manager, "later")
    assert plugin.status is Status.INCOMPATIBLE
    assert "contract 2" in plugin.reason
    with pytest.raises(PluginUnusableError, match="contract 2"):
        manager.resolve("Later")


def test_the_module_may_be_an_object_that_holds_the_hooks(site) -> None:
    site.add(
        "grain-object",
        entry_points_text="[grain.plugins]\nobject = grain_object._plugin:Plugin.instance\n",
        hooks="""
class Plugin:
    @hookimpl
    def grain_transforms(self):
        return [PluginSpec(name="t", target="builtins:list", kind=Kind.TRANSFORM,
                           public_names=("T",))]
Plugin.instance = Plugin()
""",
    )
    assert site.manager().resolve("T") is list


def test_sources_transforms_and_executors_come_from_their_own_hooks(site) -> None:
    site.add(
        "grain-all",
        hooks="""
def spec(name, kind):
    return PluginSpec(name=name, target="builtins:list", kind=kind, public_names=(name.upper(),))

@hookimpl
def grain_sources():
    return [spec("m", Kind.MAP_SOURCE), spec("i", Kind.ITER_SOURCE)]

@hookimpl
def grain_transforms():
    return [spec("t", Kind.TRANSFORM)]

@hookimpl
def grain_executors():
    return [spec("e", Kind.EXECUTOR)]
""",
    )
    manager = site.manager()
    assert manager.public_names() == ["E", "I", "M", "T"]
    assert manager.public_names({Kind.MAP_SOURCE, Kind.ITER_SOURCE}) == ["I", "M"]
    assert manager.public_names({Kind.TRANSFORM}) == ["T"]


def test_a_hook_of_a_later_core_may_be_marked_optional(site) -> None:
    site.add(
        "grain-future",
        hooks="""
@hookimpl(optionalhook=True)
def grain_something_new():
    return []

@hookimpl
def grain_sources():
    return [PluginSpec(name="f", target="a:b", kind=Kind.MAP_SOURCE)]
""",
    )
    assert statuses(site.manager()) == {"future": Status.AVAILABLE}


def test_entry_points_are_read_once_until_refreshed(site) -> None:
    site.add_source("grain-first", public_names=("First",))
    reads = []

    def distributions():
        reads.append(1)
        return site.distributions()

    manager = PluginManager(distributions=distributions)
    manager.resolve("First")
    manager.plugins()
    manager.public_names()
    assert len(reads) == 1
    site.add_source("grain-second", public_names=("Second",))
    assert manager.public_names() == ["First"]
    manager.refresh()
    assert manager.public_names() == ["First", "Second"]
    assert len(reads) == 2


def test_the_list_is_in_the_order_of_names_whatever_the_order_on_disk(site) -> None:
    for name in ("grain-c", "grain-a", "grain-b"):
        site.add_source(name)
    found = site.distributions()
    for order in (found, found[::-1]):
        manager = PluginManager(distributions=lambda order=order: order)
        assert [plugin.name for plugin in manager.plugins()] == ["a", "b", "c"]


def test_one_distribution_found_twice_on_the_path_is_one_plugin(site) -> None:
    site.add_source("grain-twice", public_names=("Twice",))
    manager = PluginManager(distributions=lambda: site.distributions() * 2)
    assert statuses(manager) == {"twice": Status.AVAILABLE}
    assert manager.resolve("Twice")


def test_unreadable_entry_points_are_reported_under_their_distribution(site) -> None:
    site.add("grain-garbled", entry_points_text="[grain.plugins]\nno equals sign here\n")
    site.add_source("grain-good", public_names=("Good",))
    manager = site.manager()
    assert [p.distribution for p in manager.plugins() if p.status is Status.FAILED] == [
        "grain-garbled"
    ]
    assert manager.resolve("Good")


def test_metadata_in_another_encoding_is_read_as_far_as_it_matters(site) -> None:
    site.add_source("grain-latin", public_names=("Latin",))
    info = site.path / "grain_latin-1.0.dist-info"
    head = "Metadata-Version: 2.1\nName: grain-latin\nVersion: 1.0\nSummary: Küche\n"
    (info / "METADATA").write_bytes(f"{head}Requires-Dist: grain-core>=99\n\n".encode("latin-1"))
    plugin = plugin_of(site.manager(core="1.0.0"), "latin")
    assert plugin.distribution == "grain-latin"
    assert plugin.status is Status.INCOMPATIBLE
    (info / "entry_points.txt").write_bytes("[grain.plugins]\nKüche = küche\n".encode("latin-1"))
    (info / "METADATA").write_bytes(f"{head}\n".encode("latin-1"))
    (plugin,) = site.manager().plugins()
    assert (plugin.distribution, plugin.status) == ("grain-latin", Status.FAILED)


def test_an_error_about_one_plugin_does_not_mention_others(site) -> None:
    for number in range(6):
        site.add(f"grain-bad{number}", hooks=f"raise RuntimeError('fault {number}')")
    site.add("grain-idle", hooks="@hookimpl\ndef grain_sources():\n    return []")
    manager = site.manager()
    with pytest.raises(PluginUnusableError, match="fault 3") as raised:
        manager.conformance_cases("bad3")
    assert "fault 2" not in str(raised.value)
    with pytest.raises(PluginUnusableError, match=r"grain-idle 1\.0 and provides nothing"):
        manager.conformance_cases("idle")
    with pytest.raises(PluginUnusableError, match=r"And 2 more: see `grain plugins check`"):
        manager.conformance_cases("unheard-of")


@pytest.mark.parametrize("raised", ["raise SystemExit(3)", "raise GeneratorExit"])
def test_a_target_or_cases_that_raise_no_error_are_an_error_of_that_plugin(site, raised) -> None:
    site.add_source("grain-odd", public_names=("Odd",))
    (site.path / "grain_odd" / "source.py").write_text(raised)
    manager = site.manager()
    with pytest.raises(PluginUnusableError, match=r"grain_odd\.source"):
        manager.resolve("Odd")
    assert plugin_of(manager, "odd").status is Status.FAILED


def test_broken_metadata_of_other_groups_is_ignored(site) -> None:
    site.add("someone-else", entry_points_text="[console_scripts]\ngarbage\n")
    assert site.manager().plugins() == ()


def test_a_plugin_whose_distribution_has_no_metadata_still_works(site) -> None:
    site.add_source("grain-bare", public_names=("Bare",))
    (site.path / "grain_bare-1.0.dist-info" / "METADATA").unlink()
    manager = site.manager()
    plugin = plugin_of(manager, "bare")
    assert (plugin.distribution, plugin.version) == (None, None)
    assert manager.resolve("Bare")


def test_a_dependency_imported_while_listing_is_named(site) -> None:
    (site.path / "heavy_dependency.py").write_text("")
    site.add(
        "grain-eager", hooks="import heavy_dependency\n@hookimpl\ndef grain_sources(): return []"
    )
    site.add_source("grain-light")
    manager = site.manager()
    assert plugin_of(manager, "eager").eager_imports == ("heavy_dependency",)
    assert plugin_of(manager, "light").eager_imports == ()


def test_a_hook_module_that_uses_another_plugin_while_listing_is_failed_with_the_reason(
    site, monkeypatch
) -> None:
    site.add("grain-greedy", hooks="import builtins; builtins.the_manager.resolve('Good')")
    site.add_source("grain-good", public_names=("Good",))
    manager = site.manager()
    monkeypatch.setattr("builtins.the_manager", manager, raising=False)
    assert statuses(manager) == {"good": Status.AVAILABLE, "greedy": Status.FAILED}
    assert "while plugins were being discovered" in plugin_of(manager, "greedy").reason


def test_threads_that_ask_at_the_same_time_share_one_discovery(site) -> None:
    site.add_source("grain-good", public_names=("Good",))
    reads = []

    def distributions():
        reads.append(1)
        return site.distributions()

    manager = PluginManager(distributions=distributions)
    barrier = threading.Barrier(8)
    found = []

    def ask() -> None:
        barrier.wait()
        found.append(manager.resolve("Good"))

    threads = [threading.Thread(target=ask) for _ in range(8)]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)  # so that the threads do meet
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert len(reads) == 1
    assert found == [sys.modules["grain_good.source"].Source] * 8


def test_of_one_distribution_in_two_places_the_first_on_the_path_counts(site, tmp_path) -> None:
    site.add_source("grain-twice", public_names=("Twice",))
    later = type(site)(tmp_path / "later")
    later.path.mkdir()
    later.add("grain-Twice", version="0.1", entry_point="old", hooks="raise RuntimeError")
    manager = PluginManager(distributions=lambda: site.distributions() + later.distributions())
    assert [(p.name, p.version) for p in manager.plugins()] == [("twice", "1.0")]
