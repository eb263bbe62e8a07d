"""The packages of this repository, installed without their dependencies."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from grain.plugins import KNOWN_PLUGINS, KnownPlugin

from .environments import Environment
from .wheels import PACKAGES, wheel_of_package

WRITTEN = [
    known for known in KNOWN_PLUGINS if list((PACKAGES / known.distribution).rglob("_plugin.py"))
]

each_known = pytest.mark.parametrize("known", KNOWN_PLUGINS, ids=lambda known: known.name)
each_written = pytest.mark.parametrize("known", WRITTEN, ids=lambda known: known.name)


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """Return an environment with the core only."""
    return Environment(tmp_path_factory.mktemp("bare"))


@pytest.fixture(scope="module")
def all_plugins(tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """Return an environment with the core and every plugin, without their dependencies."""
    made = Environment(tmp_path_factory.mktemp("all"))
    made.install(*(wheel_of_package(made.wheels, known.distribution) for known in WRITTEN))
    return made


def requirement_of(known: KnownPlugin) -> str:
    """Return what installs a plugin where its package is not beside that of the core."""
    return f"grain-core[{known.name}]>=1,<2"


def listed(environment: Environment) -> dict[str, dict]:
    done = environment.grain("plugins", "list", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    return {plugin["name"]: plugin for plugin in json.loads(done.stdout)["plugins"]}


@each_known
def test_a_name_of_a_missing_plugin_raises_with_the_install_command(
    bare: Environment, known: KnownPlugin
) -> None:
    for name in known.public_names:
        printed = bare.run(
            "try:\n"
            f"    from grain.sources import {name}\n"
            "except ImportError as error:\n"
            "    print(error)\n"
        )
        assert requirement_of(known) in printed
        assert known.distribution in printed


def test_a_core_without_plugins_has_no_problems(bare: Environment) -> None:
    assert listed(bare) == {}
    done = bare.grain("plugins", "check")
    assert (done.returncode, done.stdout) == (0, "0 plugins, 0 problems.\n")


def test_all_plugins_are_listed_without_their_dependencies(
    all_plugins: Environment,
) -> None:
    found = listed(all_plugins)
    assert {name: plugin["status"] for name, plugin in found.items()} == {
        known.name: "available" for known in WRITTEN
    }
    assert [plugin["eager_imports"] for plugin in found.values()] == [[]] * len(WRITTEN)


@each_written
def test_the_core_and_a_published_plugin_agree_on_its_names(
    all_plugins: Environment, known: KnownPlugin
) -> None:
    plugin = listed(all_plugins)[known.name]
    provided = {
        field: sorted(value for spec in plugin["provides"] for value in spec[field])
        for field in ("public_names", "schemes", "suffixes")
    }
    assert plugin["distribution"] == known.distribution
    assert provided == {field: sorted(getattr(known, field)) for field in provided}
    assert {spec["install"] for spec in plugin["provides"]} <= {
        "",
        f'pip install "{requirement_of(known)}"',
    }
    assert all(spec["summary"] for spec in plugin["provides"])


@each_written
def test_a_missing_dependency_raises_with_the_install_command(
    all_plugins: Environment, known: KnownPlugin
) -> None:
    """A source needs nothing beyond the core, or its import error has the install command."""
    for name in known.public_names:
        printed = all_plugins.run(
            "try:\n"
            f"    from grain.sources import {name}\n"
            "except ImportError as error:\n"
            "    print(error)\n"
        )
        assert printed == "" or "pip install" in printed


def test_the_repository_contains_every_known_plugin() -> None:
    names = {path.parent.name for path in Path(PACKAGES).glob("*/pyproject.toml")}
    assert names >= {known.distribution for known in KNOWN_PLUGINS}
