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


def test_names_of_plugins_are_typed_and_wrong_names_are_errors(tmp_path):
    file = tmp_path / "names.py"
    file.write_text(
        "import grain\n"
        "reveal_type(grain.sources.ParquetDataSource)\n"
        "reveal_type(grain.experimental.ParquetIterDataset)\n"
        "grain.sources.ParquetDataSourc\n"
        "grain.MapDatase\n"
        "grain.experimental.Foo\n"
        "grain.python.Foo\n"
    )
    lines = check(str(file)).stdout.splitlines()
    assert "grain_parquet.source.ParquetDataSource" in lines[0]
    assert "ParquetIterDataset" in lines[1]
    assert sum("Module has no attribute" in line for line in lines) == 4
