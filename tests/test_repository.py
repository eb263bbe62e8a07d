"""The README's commands and example run, and the packages fit together."""

from __future__ import annotations

import collections
import itertools
import pathlib
import re
import subprocess
import sys
import tomllib

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

ROOT = pathlib.Path(__file__).parent.parent
# Without modules: it satisfies other packages' requirements of the distribution `grain`.
ALIAS = ROOT / "packages/grain"
PACKAGES = sorted({file.parent for file in ROOT.glob("packages/*/pyproject.toml")} - {ALIAS})
PLUGINS = [package for package in PACKAGES if package.name != "grain-core"]
FOREIGN_CORE = Version("0.1.0")
"""The version of another project named grain-core on the package index."""

each_package = pytest.mark.parametrize("package", PACKAGES, ids=lambda package: package.name)
each_plugin = pytest.mark.parametrize("package", PLUGINS, ids=lambda package: package.name)


def project(package: pathlib.Path) -> dict:
    return tomllib.loads((package / "pyproject.toml").read_text())["project"]


def module(package: pathlib.Path) -> pathlib.Path:
    name = "grain" if package.name == "grain-core" else package.name.replace("-", "_")
    return package / "src" / name


def version(package: pathlib.Path) -> Version:
    text = (module(package) / "version.py").read_text()
    return Version(re.search(r'^__version__ = "(.+)"$', text, re.MULTILINE)[1])


def requirement(package: pathlib.Path, name: str) -> Requirement:
    found = [Requirement(line) for line in project(package)["dependencies"]]
    return next(requirement for requirement in found if requirement.name == name)


def readme_commands() -> list[str]:
    lines = (ROOT / "README.md").read_text().splitlines()
    return [line for line in lines if line.startswith('python -m pip install "nox')]


def test_the_readme_has_two_commands_and_ci_runs_the_second_verbatim():
    demo, tests = readme_commands()
    assert demo.endswith("-m nox -s demo")
    assert tests.endswith("-m nox -s tests")
    assert tests in (ROOT / ".ci/run").read_text().splitlines()


def test_the_ci_script_is_executable_and_valid_bash():
    script = ROOT / ".ci/run"
    assert script.stat().st_mode & 0o111
    subprocess.run(["bash", "-n", str(script)], check=True)


def test_the_readme_example_runs():
    example = re.search(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)[1]
    program = example + "\nassert first['label'].shape == (32,)\n"
    program += "assert (next(it)['image'] == next(again)['image']).all()\n"
    subprocess.run([sys.executable, "-W", "error", "-c", program], check=True, timeout=60)


def test_the_six_packages_are_here():
    expected = {"arrayrecord", "core", "inmemory", "parquet", "ray", "tfds"}
    assert {package.name.removeprefix("grain-") for package in PACKAGES} == expected


@each_package
def test_a_package_is_typed_licensed_and_described(package):
    assert (module(package) / "py.typed").is_file()
    assert (package / "LICENSE").read_text() == (ROOT / "LICENSE").read_text()
    assert project(package)["name"] == package.name
    assert (package / "README.md").read_text().startswith(f"# {package.name}\n")
    assert f"\n## {version(package)} (" in (package / "CHANGELOG.md").read_text()


@each_package
def test_all_packages_support_the_same_pythons(package):
    core = project(ROOT / "packages/grain-core")
    ours = project(package)
    assert ours["requires-python"] == core["requires-python"] == ">=3.11"
    assert ours["classifiers"] == core["classifiers"]


@each_package
def test_every_dependency_has_a_lower_bound(package):
    facts = project(package)
    groups = [facts["dependencies"], *facts.get("optional-dependencies", {}).values()]
    for requirement in map(Requirement, itertools.chain(*groups)):
        bounds = {specifier.operator for specifier in requirement.specifier}
        assert ">=" in bounds or requirement.name == package.name, str(requirement)


@each_plugin
def test_a_plugin_accepts_this_core_and_never_the_foreign_one(package):
    core = requirement(package, "grain-core").specifier
    assert core.contains(version(ROOT / "packages/grain-core"))
    assert not core.contains(FOREIGN_CORE)
    assert not core.contains("2.0.0")


@each_plugin
def test_a_plugin_has_an_entry_point_and_an_extra_of_the_same_name(package):
    name = package.name.removeprefix("grain-")
    assert project(package)["entry-points"]["grain.plugins"] == {name: f"grain_{name}._plugin"}
    assert (module(package) / "_plugin.py").is_file()
    [extra] = project(ROOT / "packages/grain-core")["optional-dependencies"][name]
    assert Requirement(extra).name == package.name
    assert Requirement(extra).specifier.contains(version(package))


def test_the_distribution_grain_has_no_modules_and_the_versions_and_extras_of_the_reference():
    facts = project(ALIAS)
    assert (facts["name"], facts["version"]) == ("grain", "0.2.18+local")
    assert not (ALIAS / "src").exists()
    for wanted in (">=0.2.15", "==0.2.18", "~=0.2.11", ">=0.2.18", "<0.3"):
        assert Requirement(f"grain{wanted}").specifier.contains(facts["version"])
    [core] = map(Requirement, facts["dependencies"])
    assert core.name == "grain-core"
    assert core.specifier.contains(version(ROOT / "packages/grain-core"))
    assert not core.specifier.contains(FOREIGN_CORE)
    assert set(facts["optional-dependencies"]) == {"parquet"}
    assert (ALIAS / "LICENSE").read_text() == (ROOT / "LICENSE").read_text()
    assert (ALIAS / "README.md").read_text().startswith("# grain\n")


def test_the_core_needs_numpy_pluggy_and_cloudpickle_and_nothing_else():
    lines = project(ROOT / "packages/grain-core")["dependencies"]
    assert {Requirement(line).name for line in lines} == {"numpy", "pluggy", "cloudpickle"}


def test_the_extra_all_holds_every_other_extra_but_ray():
    extras = project(ROOT / "packages/grain-core")["optional-dependencies"]
    [everything] = map(Requirement, extras["all"])
    # Ray takes hundreds of megabytes, and is of use only with a cluster.
    assert everything.extras == set(extras) - {"all", "ray"}


# Modules that have the same role in every package, and names that google/grain gives to two modules.
REPEATED_ROLES = {
    "__init__",
    "__main__",
    "_plugin",
    "conformance",
    "errors",
    "source",
    "version",
    "writer",
}
REPEATED_PUBLIC_NAMES = {"experimental"}


def test_no_module_name_is_used_for_two_subjects():
    modules = [file for package in PACKAGES for file in package.glob("src/**/*.py")]
    templates = [file for file in modules if "template" in file.parts]
    counts = collections.Counter(file.stem for file in modules if file not in templates)
    repeated = {name for name, count in counts.items() if count > 1}
    assert repeated - REPEATED_ROLES - REPEATED_PUBLIC_NAMES == set()


def test_no_class_name_is_used_for_two_classes():
    sources = [file.read_text() for package in PACKAGES for file in package.glob("src/**/*.py")]
    classes = re.findall(r"^class (\w+)", "\n".join(sources), re.MULTILINE)
    assert {name for name, count in collections.Counter(classes).items() if count > 1} == set()
