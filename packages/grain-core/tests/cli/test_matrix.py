"""`grain conformance --matrix`: interpreters, lowest versions, and cells that are not run."""

from __future__ import annotations

import sys
import zipfile

import pytest

from grain.cli import main
from grain.cli.conformance import matrix

PYTHON = ".".join(map(str, sys.version_info[:2]))
PROJECT = """
[project]
name = "grain-mine"
dependencies = ["grain-core>=1,<2"]
[project.entry-points."grain.plugins"]
mine = "grain_mine"
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "pyproject.toml").write_text(PROJECT)
    return tmp_path


def test_a_python_that_is_not_found_is_not_run_and_no_success(folder, capsys):
    # Nothing is built: the folder has no build system and no modules.
    command = ["conformance", "--matrix", str(folder), "--python", "2.0", "--core", "core"]
    assert main(command) == 1
    out = capsys.readouterr().out
    assert out.count("not run  Python 2.0 was not found") == 2
    assert "grain-mine: 0 of 2 cells passed." in out


@pytest.fixture(params=["pip", "uv"])
def built(request, tmp_path, monkeypatch):
    """Return the commands that build wheels, none of which is run."""
    commands = []

    def run(command):
        commands.append(command)
        target = matrix.pathlib.Path(command[-2])
        target.mkdir(parents=True, exist_ok=True)
        (target / "mine.whl").touch()

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(matrix, "_run", run)
    found = "uv" if request.param == "uv" else None
    monkeypatch.setattr(matrix.shutil, "which", lambda name: found)
    return commands


def test_a_bare_folder_name_is_built_as_a_path_and_never_as_a_requirement(tmp_path, built):
    (tmp_path / "grain-mine").mkdir()
    matrix.build_wheel("grain-mine", tmp_path / "out")
    assert [command[-1] for command in built] == [str(tmp_path / "grain-mine")]


def test_a_core_in_a_folder_with_a_bare_name_is_installed_from_its_path(
    tmp_path, monkeypatch, folder
):
    installed = []

    def run_cell(python, interpreter, kind, wheels, *others):
        installed.append(wheels[0])
        return matrix.Cell(python=python, dependencies=kind, outcome="passed", details="")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(matrix, "_run_cell", run_cell)
    monkeypatch.setattr(matrix, "build_wheel", lambda folder, target: "plugin.whl")
    (tmp_path / "grain-core").mkdir()
    for core in ("grain-core", "grain-core>=1"):
        matrix.run_matrix(str(folder), [PYTHON], ["latest"], core)
    assert installed == [str(tmp_path / "grain-core"), "grain-core>=1"]


def test_this_python_is_found():
    assert matrix.find_python(PYTHON) is not None
    assert matrix.find_python("2.0") is None


def test_a_project_without_classifiers_needs_the_option(folder, capsys):
    assert main(["conformance", "--matrix", str(folder)]) == 1
    assert "--python" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["", "[project]\nname = 'x'\n", "not toml"])
def test_a_folder_without_a_plugin_is_an_error_in_one_line(tmp_path, capsys, text):
    (tmp_path / "pyproject.toml").write_text(text)
    assert main(["conformance", "--matrix", str(tmp_path), "--python", PYTHON]) == 1
    assert len(capsys.readouterr().err.strip().splitlines()) == 1


@pytest.mark.parametrize(
    ("line", "pins"),
    [
        ("numpy>=1.26", ["numpy==1.26"]),
        ("numpy>=1.26,<3; python_version < '3.13'", ["numpy==1.26; python_version < '3.13'"]),
        ("fsspec[http]>=2023.1", ["fsspec[http]==2023.1"]),
        ("fsspec", []),
        ("grain_core>=1,<2", []),
        ("jax>=0.4; extra == 'jax'", []),
    ],
)
def test_the_lowest_version_of_a_requirement_is_its_lower_bound(line, pins):
    assert matrix.lowest_versions([line]) == pins


def test_the_installed_core_becomes_a_wheel(tmp_path, monkeypatch):
    class Installed:
        version = "1.2"
        files = [matrix.metadata.PackagePath(name) for name in FILES]

        def read_text(self, name):
            return None

    for file in Installed.files:
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_text(file.name)
        file.dist = type("Dist", (), {"locate_file": lambda self, name: tmp_path / name})()
    monkeypatch.setattr(matrix.metadata, "distribution", lambda name: Installed())
    wheel = matrix.core_wheel(tmp_path / "out")
    assert wheel.endswith("grain_core-1.2-py3-none-any.whl")
    with zipfile.ZipFile(wheel) as file:
        assert set(file.namelist()) == {
            "grain/__init__.py",
            "grain_core-1.2.dist-info/METADATA",
            "grain_core-1.2.dist-info/RECORD",
        }
        record = file.read("grain_core-1.2.dist-info/RECORD").decode()
    assert record.startswith("grain/__init__.py,sha256=")


FILES = (
    "grain/__init__.py",
    "grain/__pycache__/__init__.cpython-311.pyc",
    "grain_core-1.2.dist-info/METADATA",
    "grain_core-1.2.dist-info/RECORD",
    "grain_core-1.2.dist-info/INSTALLER",
)
