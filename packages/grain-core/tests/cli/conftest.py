"""Shared fixtures: a plugin with sources and writers, and commands in subprocesses."""

from __future__ import annotations

import os
import select
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

import grain.cli
from grain.plugins import Kind, PluginSpec, register, unregister

from .distributions import write_metadata

MODULE = '''
"""Files of Python literals, one in each line; `.hexed` ones give bytes."""
import ast
import os
import threading

import grain


class LinesSource:
    def __init__(self, path, *, gate=None, gate_at=0, gate_in_workers=False, needs=None):
        if needs is not None:
            raise ImportError(f"Install {needs}")
        with open(path, encoding="utf-8") as file:
            self.lines = file.read().splitlines()
        self.gate, self.gate_at = gate, gate_at
        self.ungated = os.getpid() if gate_in_workers else None

    def __len__(self):
        return len(self.lines)

    def __getitem__(self, index):
        if self.gate and index >= self.gate_at and os.getpid() != self.ungated:
            # Signal arrival, then wait to be killed.
            with open(self.gate, "w") as gate:
                gate.write("here")
            threading.Event().wait()
        line = self.lines[index]
        if line == "bad":
            raise ValueError("this line is bad:\\nvery bad")
        if line == "bug":
            raise AttributeError("a bug")
        return ast.literal_eval(line)


class HexedSource(LinesSource):
    def __getitem__(self, index):
        return bytes.fromhex(self.lines[index])


class MiscountingSource(LinesSource):
    def __getitems__(self, indices):
        return [self[index] for index in indices][1:]


class Squares(grain.IterDataset):
    def __init__(self, path):
        super().__init__()

    def __iter__(self):
        return iter(grain.MapDataset.range(6).map(square).to_iter_dataset())


def square(number):
    return {"square": number * number}


def write(path, elements, *, until=None):
    count = 0
    with open(path, "w", encoding="utf-8") as file:
        for element in elements:
            file.write(repr(element) + "\\n")
            count += 1
            if count == until:
                open(path + ".more", "w").close()
                raise OSError(28, "No space left on device")
    return count


def write_some(path, elements):
    return write(path, (element for _, element in zip(range(3), elements)))


def write_and_miscount(path, elements):
    return write(path, elements) + 1


def write_hexed(path, elements):
    encoded = (e if isinstance(e, bytes) else b"!" + repr(e).encode() for e in elements)
    with open(path, "w", encoding="utf-8") as file:
        return sum(bool(file.write(e.hex() + "\\n")) for e in encoded)


def decode(record):
    return ast.literal_eval(record[1:].decode()) if record[:1] == b"!" else record
'''

SPECS = """
from grain.plugins import Kind, PluginSpec, hookimpl

@hookimpl
def grain_sources():
    return [
        PluginSpec(name="lines", target="lines_of_literals:LinesSource", kind=Kind.MAP_SOURCE,
                   schemes=("lines",), suffixes=(".lines",), writer="lines_of_literals:write"),
    ]
"""


@pytest.fixture
def code(tmp_path: Path) -> Path:
    """Return a folder with the plugin's module."""
    code = tmp_path / "code"
    code.mkdir()
    (code / "lines_of_literals.py").write_text(MODULE)
    return code


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """Return a folder with the plugin's installed metadata."""
    site = tmp_path / "site"
    write_metadata(site, "grain-lines", "grain_lines", requires=())
    (site / "grain_lines.py").write_text(SPECS)
    return site


@pytest.fixture
def lines(code: Path, monkeypatch: pytest.MonkeyPatch):
    """Register the plugin's sources in this process."""
    monkeypatch.syspath_prepend(code)
    specs = [
        PluginSpec(
            name="literal-lines",
            target="lines_of_literals:LinesSource",
            kind=Kind.MAP_SOURCE,
            suffixes=(".lines",),
            writer="lines_of_literals:write",
        ),
        PluginSpec(
            name="hexed-lines",
            target="lines_of_literals:HexedSource",
            kind=Kind.MAP_SOURCE,
            suffixes=(".hexed",),
            writer="lines_of_literals:write_hexed",
            decoder="lines_of_literals:decode",
        ),
        PluginSpec(
            name="read-only-lines",
            target="lines_of_literals:LinesSource",
            kind=Kind.MAP_SOURCE,
            suffixes=(".readonly",),
        ),
        *(
            PluginSpec(
                name=f"{name}-lines",
                target=f"lines_of_literals:{target}",
                kind=Kind.MAP_SOURCE,
                suffixes=(f".{name}",),
                writer=f"lines_of_literals:{writer}",
            )
            for name, target, writer in (
                ("fewer", "MiscountingSource", "write"),
                ("some", "LinesSource", "write_some"),
                ("miscounted", "LinesSource", "write_and_miscount"),
            )
        ),
        PluginSpec(
            name="squares",
            target="lines_of_literals:Squares",
            kind=Kind.ITER_SOURCE,
            schemes=("squares",),
        ),
    ]
    for spec in specs:
        register(spec)
    yield
    for spec in specs:
        unregister(spec.name)
    sys.modules.pop("lines_of_literals", None)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an empty working directory."""
    folder = tmp_path / "data"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def start(site: Path, code: Path):
    """Start the command in a subprocess that finds only this plugin; killed at the end of the test."""
    started: list[subprocess.Popen[str]] = []
    source = Path(grain.cli.__file__).parents[2]

    def start(
        *arguments: str,
        before: str = "",
        environment: dict[str, str] | None = None,
        **settings: Any,
    ) -> subprocess.Popen[str]:
        program = "import sys\nfrom grain.cli import main\nsys.exit(main())"
        program = f"{textwrap.dedent(before)}\n{program}"
        process = subprocess.Popen(
            [sys.executable, "-c", program, *arguments],
            text=True,
            env={
                "PATH": os.environ["PATH"],
                "PYTHONPATH": os.pathsep.join([str(site), str(code), str(source)]),
                "GRAIN_PLUGINS": "lines",
                **(environment or {}),
            },
            **settings,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        if process.poll() is None:
            process.kill()
        process.wait()
        for stream in (process.stdin, process.stdout, process.stderr):
            if stream is not None:
                stream.close()


@pytest.fixture
def wait_at():
    """Wait until a process has reached the gate of its source; fail if the process ends before."""

    def wait(gate: str, process: subprocess.Popen[str]) -> None:
        end = os.open(gate, os.O_RDWR)  # read-only would block until a writer opens the FIFO
        try:
            while not select.select([end], [], [], 0.1)[0]:
                assert process.poll() is None, "the process ended before it reached the gate"
        finally:
            os.close(end)

    return wait
