"""`grain convert` between the published formats preserves elements."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import grain
from grain.cli import main
from grain.plugins import default_manager

pytest.importorskip("grain_arrayrecord")
pytest.importorskip("grain_parquet")
pytest.importorskip("grain_jsonl")

# A file name per format.
FORMATS = {"parquet": "a.parquet", "arrayrecord": "a.array_record", "jsonl": "a.jsonl"}


def elements_of(path: str) -> list:
    decode = default_manager().decoder(path) or (lambda record: record)
    with grain.sources.open(path) as source:
        return [decode(source[index]) for index in range(len(source))]


def plain(value):
    """Return a value with numpy scalars and arrays as Python objects."""
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    return value.tolist() if isinstance(value, (np.ndarray, np.generic)) else value


@pytest.fixture(scope="module")
def rows() -> list[dict]:
    return [
        {"id": i, "text": "é" * (i % 5), "score": None if i % 3 else i / 2, "ids": [i, i + 1]}
        for i in range(30)
    ]


@pytest.mark.parametrize(("first", "second"), [*itertools.permutations(FORMATS, 2)])
def test_a_round_trip_through_another_format_preserves_elements(
    folder: Path, rows, capsys, first, second
) -> None:
    write, path = default_manager().writer(FORMATS[first])
    assert write(path, rows) == 30
    before = elements_of(path)
    there, back = f"there_{FORMATS[second]}", f"back_{FORMATS[first]}"
    assert main(["convert", path, there]) == 0
    assert main(["convert", there, back]) == 0
    assert [plain(e) for e in elements_of(there)] == [plain(e) for e in before]
    assert [plain(e) for e in elements_of(back)] == [plain(e) for e in before]
    assert capsys.readouterr().err == ""


def test_dtypes_and_shapes_survive_array_record(folder: Path) -> None:
    write, _ = default_manager().writer("a.array_record")
    element = {"image": np.arange(12, dtype=np.uint8).reshape(2, 2, 3), "blob": b"\x00\xff"}
    write("a.array_record", [element])
    assert main(["convert", "a.array_record", "b.array_record"]) == 0
    (read,) = elements_of("b.array_record")
    assert (read["image"].dtype, read["image"].shape) == (np.uint8, (2, 2, 3))
    assert read["blob"] == b"\x00\xff"


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such limit")
@pytest.mark.parametrize("target", list(FORMATS.values()))
def test_a_failed_write_leaves_no_file(folder: Path, target) -> None:
    write, path = default_manager().writer("big.jsonl")
    noise = np.random.default_rng(0).integers(0, 10**15, 4000).tolist()
    write(path, [{"id": number, "text": str(number)} for number in noise])
    program = (
        "import resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (20000, 20000));"
        "from grain.cli import main; sys.exit(main())"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, "convert", path, target], capture_output=True, text=True
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"grain: {target} cannot be written: ")
    assert "File too large" in done.stderr
    assert done.stderr.count("\n") == 1
    assert os.listdir() == ["big.jsonl"]
