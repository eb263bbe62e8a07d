"""Virtual environments for tests, made offline: the core, its dependencies, and given wheels."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from importlib import metadata
from pathlib import Path

from .wheels import wheel_of_package

CORE_DEPENDENCIES = ("numpy", "pluggy", "cloudpickle")


class Environment:
    """A virtual environment with grain-core and its dependencies only."""

    def __init__(self, directory: Path) -> None:
        self._path = directory / "environment"
        self._wheels = directory / "wheels"
        self._uv = shutil.which("uv")
        pip = ["--without-pip"] if self._uv else []
        _run([sys.executable, "-m", "venv", *pip, str(self._path)])
        self.python = self._path / "bin" / "python"
        for name in CORE_DEPENDENCIES:
            self._link(name)
        self.install(wheel_of_package(self._wheels, "grain-core"))

    @property
    def wheels(self) -> Path:
        """The folder for wheels to install."""
        return self._wheels

    def install(self, *wheels: Path) -> None:
        """Install wheels without their dependencies."""
        if self._uv:
            tool = [
                self._uv,
                "pip",
                "install",
                "--quiet",
                "--offline",
                "--python",
                str(self.python),
            ]
        else:
            tool = [str(self.python), "-m", "pip", "install", "--quiet"]
        _run([*tool, "--no-index", "--no-deps", *map(str, wheels)])

    def run(self, program: str, **variables: str) -> str:
        """Run a Python program that must succeed, and return its output."""
        done = self._start([str(self.python), "-c", program], variables)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def grain(self, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run the installed `grain` command."""
        return self._start([str(self._path / "bin" / "grain"), *arguments], variables)

    def _start(
        self, command: list[str], variables: dict[str, str]
    ) -> subprocess.CompletedProcess[str]:
        # Settings of the test environment must not leak in.
        clean = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "GRAIN"))}
        return subprocess.run(
            command, capture_output=True, text=True, env={**clean, **variables}, cwd=self._path
        )

    def _link(self, name: str) -> None:
        """Link an installed distribution from the test environment."""
        (site,) = self._path.glob("lib/python*/site-packages")
        distribution = metadata.distribution(name)
        tops = {file.parts[0] for file in distribution.files or ()} - {"..", "__pycache__"}
        assert tops, f"{name} has no list of files"
        for top in sorted(tops):
            (site / top).symlink_to(str(distribution.locate_file(top)))


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, f"{command} failed:\n{done.stdout}{done.stderr}"
