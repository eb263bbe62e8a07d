"""A type checker infers the types of elements through pipelines, and rejects names that do not exist."""

from __future__ import annotations

import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[2]
pytest.importorskip("mypy")


def check(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "mypy", "--config-file", str(ROOT / "pyproject.toml")]
    return subprocess.run([*command, *arguments], capture_output=True, text=True, cwd=ROOT)


def test_types_are_inferred_through_pipelines():
    found = check("tests/typing/inference.py")
    assert found.returncode == 0, found.stdout
