"""A disk that fills up during a write is an error, and an existing file is kept."""

from __future__ import annotations

import pathlib
import subprocess
import sys
import textwrap

import pytest

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs limits of processes")

# A limit of the file size acts like a full disk, except for the error number.
PROGRAM = """
    import importlib, os, resource, signal, sys

    module, function, path = sys.argv[1:]
    write = getattr(importlib.import_module(module), function)
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
    elements = ({"text": os.urandom(500).hex(), "number": n} for n in range(3000))
    try:
        write(path, elements) if function != "write_index" else write(path)
    except (OSError, RuntimeError) as error:
        print(error, *getattr(error, "__notes__", ()))
"""


def run(*arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(PROGRAM), *arguments], capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@pytest.mark.parametrize(
    "module", ["grain_arrayrecord.writer", "grain_parquet.writer", "grain_jsonl.writer"]
)
@pytest.mark.parametrize("before", [None, "mine"], ids=["new", "over a file"])
def test_a_full_disk_is_an_error_that_names_the_file_and_leaves_no_file(
    module: str, before: str | None, tmp_path: pathlib.Path
) -> None:
    path = tmp_path / "data"
    if before is not None:
        path.write_text(before)
    output = run(module, "write_elements", str(path))
    assert "File too large" in output
    assert str(path) in output
    assert [file.name for file in tmp_path.iterdir()] == ([] if before is None else ["data"])
    if before is not None:
        assert path.read_text() == before


def test_an_index_that_does_not_fit_leaves_no_file(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"1\n" * 40_000)
    assert "requested" in run("grain_jsonl", "write_index", str(path))
    assert list(tmp_path.iterdir()) == [path]
