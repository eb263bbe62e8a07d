"""Installed software: Python, the core and its import name, libraries, plugins."""

from __future__ import annotations

import os
import pathlib
import platform
import sys
from collections.abc import Iterator

from grain.cli.doctor.finding import Finding, Level
from grain.cli.output import stdout_to_stderr
from grain.cli.plugins.rendering import eager_note, row
from grain.plugins import default_manager
from grain.plugins.diagnostics import FIX
from grain.plugins.import_conflicts import import_conflicts
from grain.plugins.metadata import CORE, headers_of, installed_distributions, normalise
from grain.version import __version__

OLDEST_PYTHON = (3, 11)
# The value says whether the core requires the library.
_LIBRARIES = {
    "numpy": True,
    "cloudpickle": True,
    "pluggy": True,
    "jax": False,
    "orbax-checkpoint": False,
}


def findings() -> Iterator[Finding]:
    """Yield the findings about installed software."""
    yield _python()
    yield Finding(name="platform", detail=platform.platform())
    yield from _core()
    yield from _libraries()
    yield from _plugins()


def _python() -> Finding:
    detail = f"{platform.python_implementation()} {platform.python_version()} ({sys.executable})"
    if sys.version_info[:2] < OLDEST_PYTHON:
        return Finding(
            name="python",
            detail=detail,
            level=Level.PROBLEM,
            advice=f"grain needs Python {'.'.join(map(str, OLDEST_PYTHON))} or later.",
        )
    return Finding(name="python", detail=detail)


def _core() -> Iterator[Finding]:
    folder = pathlib.Path(__file__).parents[2]
    yield Finding(name="grain", detail=f"{CORE} {__version__} in {folder}")
    problems = import_conflicts(installed_distributions())
    for problem in problems:
        what, _, advice = problem.partition(FIX)
        yield Finding(
            name="import name", detail=what, level=Level.PROBLEM, advice=advice or "Reinstall it."
        )
    if not problems:
        yield Finding(name="import name", detail=f"'grain' is provided by {CORE} only")
    yield from shadowing_files(folder)


def shadowing_files(folder: pathlib.Path) -> Iterator[Finding]:
    """Yield files in the working directory that shadow installed modules."""
    here = pathlib.Path(os.getcwd())
    for name in ("grain.py", "grain/__init__.py", "numpy.py"):
        file = here / name
        if file.is_file() and file.parent != folder:
            yield Finding(
                name="shadow",
                detail=f"{file} is imported instead of the library by programs in {here}",
                level=Level.NOTE,
                advice="Rename the file, unless that is intended.",
            )


def _libraries() -> Iterator[Finding]:
    versions: dict[str, str] = {}
    for distribution in installed_distributions():
        headers = headers_of(distribution)
        if headers["name"] and headers["version"]:
            versions.setdefault(normalise(headers["name"][0]), headers["version"][0])
    for name, needed in _LIBRARIES.items():
        if name in versions:
            yield Finding(name=name, detail=versions[name])
        elif needed:
            yield Finding(
                name=name,
                detail="not installed, but required by grain",
                level=Level.PROBLEM,
                advice=f"pip install {name}",
            )
        else:
            yield Finding(name=name, detail="not installed")


def _plugins() -> Iterator[Finding]:
    manager = default_manager()
    with stdout_to_stderr():
        plugins = manager.load_all()
    for plugin in plugins:
        _, distribution, version, status, detail = row(plugin)
        if not plugin.is_problem:
            yield Finding(
                name=f"plugin {plugin.name}", detail=f"{distribution} {version}, {status}: {detail}"
            )
    for note in filter(None, map(eager_note, plugins)):
        yield Finding(name="plugins", detail=note, level=Level.NOTE)
    for problem in manager.problems():
        what, _, advice = problem.partition(FIX)
        yield Finding(name="plugins", detail=what, level=Level.PROBLEM, advice=advice)
    if not plugins:
        yield Finding(name="plugins", detail="none installed")
