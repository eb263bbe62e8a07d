"""Broken, raising, incompatible, duplicate and heavy plugins, installed beside a good plugin."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from .environments import Environment
from .wheels import write_wheel

HOOK = """
from grain.plugins import Kind, PluginSpec, hookimpl

@hookimpl
def grain_sources():
    return [
        PluginSpec(
            name="{name}",
            target="grain_{name}.source:Source",
            kind=Kind.MAP_SOURCE,
            public_names=("{public}",),
            schemes=("{scheme}",),
            suffixes=(".{scheme}",),
            install="pip install grain-{name}",
        )
    ]
"""
SOURCE = """
import {dependency}

class Source:
    def __init__(self, path):
        self._path = path

    def __len__(self):
        return len(self._path)

    def __getitem__(self, index):
        return self._path[index]
"""


def plugin(
    directory: Path,
    name: str,
    *,
    hook: str = HOOK,
    public: str = "",
    scheme: str = "",
    dependency: str = "good_dependency",
    requires: str = "grain-core>=1,<2",
) -> Path:
    """Write the wheel of a plugin called `name`."""
    public, scheme = public or f"{name.capitalize()}DataSource", scheme or name
    files = {
        f"grain_{name}/__init__.py": "",
        f"grain_{name}/_plugin.py": hook.format(name=name, public=public, scheme=scheme),
        f"grain_{name}/source.py": SOURCE.format(dependency=dependency),
    }
    return write_wheel(
        directory,
        f"grain-{name}",
        "1.5",
        {path: text.encode() for path, text in files.items()},
        requires=[requires],
        entry_points={"grain.plugins": {name: f"grain_{name}._plugin"}},
    )


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Environment:
    made = Environment(tmp_path_factory.mktemp("hostile"))
    wheels = made.wheels
    made.install(
        write_wheel(wheels, "good-dependency", "1.0", {"good_dependency.py": b""}),
        write_wheel(wheels, "heavy-dependency", "1.0", {"heavy_dependency.py": b""}),
        plugin(wheels, "good"),
        plugin(wheels, "lacking", dependency="missing_dependency"),
        plugin(wheels, "broken", hook="import missing_dependency"),
        plugin(wheels, "exiting", hook="import sys; sys.exit(3)"),
        plugin(
            wheels,
            "raising",
            hook="from grain.plugins import hookimpl\n\n"
            "@hookimpl\ndef grain_sources():\n    raise RuntimeError('the hook raised')\n",
        ),
        plugin(wheels, "incompatible", hook="1 / 0", requires="grain-core>=99"),
        plugin(wheels, "duplicate_a", public="DuplicateDataSource", scheme="dup"),
        plugin(wheels, "duplicate_b", public="DuplicateDataSource", scheme="dup"),
        plugin(wheels, "heavy", hook="import heavy_dependency\n" + HOOK),
    )
    return made


STATUSES = {
    "broken": "failed",
    "duplicate_a": "duplicate",
    "duplicate_b": "duplicate",
    "exiting": "failed",
    "good": "available",
    "heavy": "available",
    "incompatible": "incompatible",
    "lacking": "available",
    "raising": "failed",
}


def test_listing_reports_every_plugin_with_its_own_status(environment: Environment) -> None:
    done = environment.grain("plugins", "list", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    plugins = {plugin["name"]: plugin for plugin in json.loads(done.stdout)["plugins"]}
    assert {name: plugin["status"] for name, plugin in plugins.items()} == STATUSES
    assert {plugin["version"] for plugin in plugins.values()} == {"1.5"}
    for name, words in {
        "broken": "No module named 'missing_dependency'",
        "exiting": "SystemExit: 3",
        "raising": "RuntimeError: the hook raised",
        "incompatible": "grain-core>=99",
        "duplicate_a": "grain-duplicate_b 1.5",
        "duplicate_b": "grain-duplicate_a 1.5",
    }.items():
        assert words in plugins[name]["reason"]
        assert plugins[name]["fix"].removeprefix("uv ").startswith("pip ")
    assert plugins["heavy"]["eager_imports"] == ["heavy_dependency"]
    assert plugins["good"]["eager_imports"] == []


def test_the_listed_table_names_every_plugin_and_notes_eager_imports(
    environment: Environment,
) -> None:
    done = environment.grain("plugins", "list")
    assert done.returncode == 0
    for name in STATUSES:
        assert f"grain-{name}" in done.stdout
    assert "note: listing 'heavy' of grain-heavy 1.5 imports heavy_dependency" in done.stdout


def test_listing_imports_no_source_and_none_of_their_dependencies(environment: Environment) -> None:
    environment.run(
        "import sys, grain.sources, grain.plugins\n"
        "grain.plugins.plugins(); dir(grain.sources)\n"
        "assert 'grain_good._plugin' in sys.modules\n"
        "assert 'grain_incompatible' not in sys.modules\n"
        "for name in ('grain_good.source', 'good_dependency', 'grain_lacking.source'):\n"
        "    assert name not in sys.modules, name\n"
    )


def test_importing_grain_imports_no_plugin(environment: Environment) -> None:
    environment.run(
        "import sys, grain, grain.sources\n"
        "print(grain.sources.RangeDataSource(0, 3, 1)[2])\n"
        "assert not [name for name in sys.modules if name.startswith('grain_')]\n"
        "assert 'pluggy' not in sys.modules\n"
    )


def test_using_one_plugin_loads_only_that_plugin(environment: Environment) -> None:
    environment.run(
        "import sys\n"
        "from grain.sources import GoodDataSource\n"
        "assert GoodDataSource('abc')[1] == 'b'\n"
        "assert 'good_dependency' in sys.modules\n"
        "assert 'grain_heavy.source' not in sys.modules\n"
    )


def test_the_good_plugin_works_beside_faulty_ones(
    environment: Environment,
) -> None:
    printed = environment.run(
        "import grain, pickle, grain.sources as sources\n"
        "assert 'GoodDataSource' in dir(sources) and hasattr(sources, 'GoodDataSource')\n"
        "source = sources.open('good://abc')\n"
        "assert type(source) is sources.GoodDataSource\n"
        "assert pickle.loads(pickle.dumps(source))[2] == 'c'\n"
        "assert len(sources.open('x.good')) == 6\n"
        "assert sources.HeavyDataSource('xy')[0] == 'x'\n"
        "assert list(grain.MapDataset.source(source).batch(2))[0].tolist() == ['a', 'b']\n"
        "print('works')\n"
    )
    assert printed == "works\n"


@pytest.mark.parametrize(
    ("name", "words"),
    [
        (
            "LackingDataSource",
            ["grain-lacking 1.5", "missing_dependency", "pip install grain-lacking"],
        ),
        (
            "DuplicateDataSource",
            ["grain-duplicate_a 1.5", "grain-duplicate_b 1.5", "pip uninstall"],
        ),
        ("BrokenDataSource", ["grain-broken 1.5", "missing_dependency", "grain-raising 1.5"]),
        ("ParquetDataSource", ["grain-parquet, which is not installed", 'pip install "']),
    ],
)
def test_an_unavailable_name_raises_with_distribution_reason_and_fix(
    environment: Environment, name: str, words: list[str]
) -> None:
    printed = environment.run(
        "import grain.sources\n"
        f"assert not hasattr(grain.sources, '{name}')\n"
        f"assert '{name}' not in dir(grain.sources) or '{name}' == 'LackingDataSource'\n"
        "try:\n"
        f"    from grain.sources import {name}\n"
        "except ImportError as error:\n"
        "    print(error)\n"
        "try:\n"
        f"    grain.sources.{name}\n"
        "except AttributeError as error:\n"
        "    print(error)\n"
    )
    by_import, by_attribute = printed.splitlines()
    assert by_import == by_attribute
    for word in words:
        assert word in by_import


def test_checking_loads_every_plugin_and_reports_every_problem(
    environment: Environment,
) -> None:
    done = environment.grain("plugins", "check", "--json")
    assert done.returncode == 1
    report = json.loads(done.stdout)
    found = {plugin["name"]: plugin["status"] for plugin in report["plugins"]}
    assert found == {**STATUSES, "good": "loaded", "heavy": "loaded", "lacking": "failed"}
    bad = [name for name, status in found.items() if status != "loaded"]
    assert len(report["problems"]) == len(bad)
    for name in bad:
        assert any(f"{name!r} of grain-{name} 1.5" in problem for problem in report["problems"])


def test_disabling_faulty_plugins_passes_the_check_in_strict_mode(environment: Environment) -> None:
    disable = "lacking,broken,exiting,raising,incompatible,grain-duplicate_a"
    variables = {"GRAIN_PLUGINS_DISABLE": disable, "GRAIN_PLUGINS_STRICT": "1"}
    done = environment.grain("plugins", "check", **variables)
    assert done.returncode == 0, done.stdout
    environment.run(
        "from grain.sources import DuplicateDataSource as D\n"
        "assert D.__module__ == 'grain_duplicate_b.source'\n",
        **variables,
    )


def test_allowing_only_the_good_plugin_runs_no_code_of_others(environment: Environment) -> None:
    environment.run(
        "import sys, grain.sources\n"
        "grain.sources.GoodDataSource\n"
        "tops = {name.partition('.')[0] for name in sys.modules if name.startswith('grain_')}\n"
        "assert tops == {'grain_good'}, tops\n",
        GRAIN_PLUGINS="good",
    )


def test_strict_mode_refuses_faulty_plugins(environment: Environment) -> None:
    printed = environment.run(
        "import grain.sources\n"
        "try:\n"
        "    grain.sources.open('good://abc')\n"
        "except ImportError as error:\n"
        "    print(error)\n",
        GRAIN_PLUGINS_STRICT="1",
    )
    for name in ("broken", "raising", "incompatible", "duplicate_a"):
        assert f"grain-{name} 1.5" in printed
