"""`grain conformance --matrix`: check a plugin's folder on several Pythons, from wheels.

Each cell is a new environment with the plugin and this core, on one Python, with the lowest versions that
the requirements allow or with the latest. It needs neither a checkout of grain nor a package index that
has it: the core is packed from the installed one. A cell whose Python is not found is reported as not
run, and is no success.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
import zipfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib import metadata
from typing import Any

from grain.cli.command import CommandError
from grain.cli.output import counted, table
from grain.plugins.metadata import CORE

_PYTHON = re.compile(r"Programming Language :: Python :: (3\.\d+)")
_LOWEST = re.compile(r"^(?P<name>[\w.-]+)(?P<extras>\[[^]]*\])?[^;]*?>=\s*(?P<version>[\w.]+)")
_VERSION = "import sys; print('.'.join(map(str, sys.version_info[:2])))"


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One cell of the matrix: a Python, and which versions of the requirements.

    Attributes:
        python: The version of Python, such as "3.12".
        dependencies: "lowest" or "latest".
        outcome: "passed", "failed" or "not run".
        details: The counts of the report, or why it was not run.
    """

    python: str
    dependencies: str
    outcome: str
    details: str


def run_matrix(
    folder: str, pythons: Sequence[str], dependencies: Sequence[str], core: str | None
) -> int:
    """Check the plugin in a folder in all cells, print a table, and return 1 unless all passed.

    Args:
        folder: The folder with the plugin's `pyproject.toml`.
        pythons: Versions of Python; none means those of the project's classifiers.
        dependencies: Some of "lowest" and "latest".
        core: A wheel, folder or requirement for the core; None packs the installed core.
    """
    project = _project(pathlib.Path(folder))
    names = project.get("entry-points", {}).get("grain.plugins", {})
    if not names:
        raise CommandError(f"{folder} has no entry point in the group grain.plugins.")
    pythons = pythons or _supported_pythons(project)
    interpreters = {python: find_python(python) for python in pythons}
    with tempfile.TemporaryDirectory(prefix="grain-matrix-") as temporary:
        work = pathlib.Path(temporary)
        wheels: list[str] = []
        if any(interpreters.values()):
            wheels = [
                _located(core) if core else core_wheel(work / "core"),
                build_wheel(folder, work / "plugin"),
            ]
        cells = []
        for python, interpreter in interpreters.items():
            for kind in dependencies:
                cell = _run_cell(python, interpreter, kind, wheels, list(names), work, project)
                print(f"{cell.python}, {cell.dependencies}: {cell.outcome}", flush=True)
                cells.append(cell)
    rows = [(cell.python, cell.dependencies, cell.outcome, cell.details) for cell in cells]
    print(table(("PYTHON", "DEPENDENCIES", "OUTCOME", "DETAILS"), rows))
    passed = sum(cell.outcome == "passed" for cell in cells)
    print(f"{project['name']}: {passed} of {counted(len(cells), 'cell')} passed.")
    return 0 if passed == len(cells) else 1


def _project(folder: pathlib.Path) -> dict[str, Any]:
    try:
        with open(folder / "pyproject.toml", "rb") as file:
            project: dict[str, Any] = tomllib.load(file)["project"]
    except (OSError, KeyError, tomllib.TOMLDecodeError) as error:
        raise CommandError(
            f"{folder} is not the folder of a package: its pyproject.toml cannot be read ({error!r})."
        ) from error
    return project


def _supported_pythons(project: dict[str, Any]) -> list[str]:
    found = [_PYTHON.fullmatch(line) for line in project.get("classifiers", ())]
    pythons = [match[1] for match in found if match]
    if not pythons:
        raise CommandError(
            "The project has no classifiers such as 'Programming Language :: Python :: 3.12': add"
            " one for each Python that it supports, or name them with --python."
        )
    return pythons


def _run_cell(
    python: str,
    interpreter: str | None,
    kind: str,
    wheels: Sequence[str],
    names: Sequence[str],
    work: pathlib.Path,
    project: dict[str, Any],
) -> Cell:
    def cell(outcome: str, details: str) -> Cell:
        return Cell(python=python, dependencies=kind, outcome=outcome, details=details)

    if interpreter is None:
        return cell("not run", f"Python {python} was not found")
    environment = work / f"{python}-{kind}"
    try:
        inside = _create_environment(interpreter, environment)
        pins = lowest_versions(_requirements(wheels[0], project)) if kind == "lowest" else []
        _install(inside, [*wheels, *pins])
    except subprocess.CalledProcessError as error:
        return cell("failed", f"cannot be installed: {_last_line(error.stderr or error.stdout)}")
    counts: dict[str, int] = {}
    failed = []
    for name in names:
        report = environment / f"{name}.json"
        command = [inside, "-m", "grain", "conformance", name, "--json", str(report)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=work)
        if not report.exists():
            stuck = done.stderr.startswith("Timeout (")
            reason = f"a check hangs; see `grain conformance {name}`"
            return cell("failed", reason if stuck else _last_line(done.stderr or done.stdout))
        for case in json.loads(report.read_text(encoding="utf-8"))["cases"]:
            for result in case["results"]:
                counts[result["outcome"]] = counts.get(result["outcome"], 0) + 1
                if result["outcome"] in ("failed", "unexpected pass", "not run"):
                    failed.append(f"{case['case']}: {result['check']}")
        if done.returncode and not failed:
            failed.append(_last_line(done.stdout))
    shutil.rmtree(environment, ignore_errors=True)
    text = ", ".join(f"{count} {outcome}" for outcome, count in counts.items())
    return cell("failed", "; ".join(failed[:3])) if failed else cell("passed", text)


def find_python(version: str) -> str | None:
    """Return an interpreter of this version, such as "3.12", if it is installed and runs."""
    candidates = [[sys.executable], [f"python{version}"], ["py", f"-{version}"]]
    if shutil.which("uv"):
        found = subprocess.run(
            ["uv", "python", "find", "--no-python-downloads", version],
            capture_output=True,
            text=True,
            check=False,
        )
        if found.returncode == 0 and found.stdout.strip():
            candidates.append([found.stdout.strip()])
    for command in candidates:
        try:
            script = f"{_VERSION}; print(sys.executable)"
            done = subprocess.run(
                [*command, "-c", script], capture_output=True, text=True, check=False, timeout=60
            )
        except (OSError, subprocess.TimeoutExpired):
            continue
        lines = done.stdout.split("\n")
        if done.returncode == 0 and lines[0] == version:
            return lines[1]
    return None


def lowest_versions(requirements: Iterable[str]) -> list[str]:
    """Return requirements of exactly the lower bounds; those without a lower bound are left out.

    Example:
        >>> lowest_versions(["numpy>=1.26; python_version < '3.13'", "grain-core>=1,<2", "fsspec"])
        ["numpy==1.26; python_version < '3.13'"]
    """
    pins = []
    for line in requirements:
        found = _LOWEST.match(line)
        if found and _normal(found["name"]) != CORE and "extra ==" not in line:
            marker = line.partition(";")[2].strip()
            pin = f"{found['name']}{found['extras'] or ''}=={found['version']}"
            pins.append(f"{pin}; {marker}" if marker else pin)
    return pins


def _requirements(core: str, project: dict[str, Any]) -> list[str]:
    """Return the requirements of the core and of the plugin."""
    needed = list(project.get("dependencies", ()))
    if core.endswith(".whl"):
        with zipfile.ZipFile(core) as file:
            [name] = [n for n in file.namelist() if n.endswith(".dist-info/METADATA")]
            text = file.read(name).decode()
        needed += re.findall(r"^Requires-Dist: (.+)$", text, re.MULTILINE)
    return needed


def _create_environment(interpreter: str, folder: pathlib.Path) -> str:
    if shutil.which("uv"):
        _run(["uv", "venv", "--quiet", "--python", interpreter, str(folder)])
    else:
        _run([interpreter, "-m", "venv", str(folder)])
    return str(folder / ("Scripts" if os.name == "nt" else "bin") / "python")


def _install(python: str, wanted: Sequence[str]) -> None:
    install = (
        ["uv", "pip", "install", "--quiet", "--python", python]
        if shutil.which("uv")
        else [python, "-m", "pip", "install", "--quiet"]
    )
    _run([*install, *wanted])


def build_wheel(folder: str, target: pathlib.Path) -> str:
    """Build the package in a folder and return its wheel."""
    place = os.path.abspath(folder)
    build = (
        ["uv", "build", "--quiet", "--wheel", "--out-dir", str(target), place]
        if shutil.which("uv")
        else [
            sys.executable,
            "-m",
            "pip",
            "wheel",
            "--quiet",
            "--no-deps",
            "-w",
            str(target),
            place,
        ]
    )
    try:
        _run(build)
    except subprocess.CalledProcessError as error:
        raise CommandError(f"{folder} cannot be built:\n{error.stderr or error.stdout}") from error
    return str(next(target.glob("*.whl")))


def _located(requirement: str) -> str:
    """Return the absolute path of a file or folder; a requirement that is neither is unchanged.

    An installer reads a bare name as a requirement, and would look it up on the package index.
    """
    return os.path.abspath(requirement) if os.path.exists(requirement) else requirement


def core_wheel(target: pathlib.Path) -> str:
    """Return the installed core as a wheel; a core that is installed in place is built instead."""
    core = metadata.distribution(CORE)
    place = json.loads(core.read_text("direct_url.json") or "{}")
    if place.get("dir_info", {}).get("editable"):
        return build_wheel(str(place["url"]).removeprefix("file://"), target)
    target.mkdir(parents=True)
    path = target / f"{CORE.replace('-', '_')}-{core.version}-py3-none-any.whl"
    record = []
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for member in core.files or ():
            name = member.as_posix()
            generated = name.startswith("..") or "__pycache__" in name
            if generated or member.name in ("RECORD", "INSTALLER", "REQUESTED", "direct_url.json"):
                continue
            data = pathlib.Path(str(member.locate())).read_bytes()
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            file.writestr(name, data)
            record.append(f"{name},sha256={digest},{len(data)}")
            if member.name == "METADATA":
                folder = member.parent.as_posix()
        name = f"{folder}/RECORD"
        file.writestr(name, "\n".join([*record, f"{name},,", ""]))
    return str(path)


def _run(command: Sequence[str]) -> None:
    subprocess.run(command, capture_output=True, text=True, check=True)


def _last_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1].strip() if lines else "no output"


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
