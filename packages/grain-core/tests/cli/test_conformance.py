"""`grain conformance`: output, files and exit codes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from .distributions import write_metadata

HOOKS = """
from grain.plugins import Kind, PluginSpec, hookimpl

@hookimpl
def grain_transforms():
    return [PluginSpec(name="twice", target="grain_twice.work:Twice", kind=Kind.TRANSFORM,
                       public_names=("Twice",), summary="Doubles.", install="pip install x")]

@hookimpl
def grain_conformance_cases():
    from grain_twice import work
    return [work.CASE]
"""
WORK = """
import grain
from grain.testing import Case, CaseKind

class Twice(grain.transforms.Map):
    def map(self, element):
        return 2 * element

CASE = Case(name="numbers", spec="twice", kind=CaseKind.TRANSFORM, make=Twice, inputs=[1, 2],
            elements={elements})
"""


@pytest.fixture
def grain(tmp_path: Path):
    """Run the command with one installed plugin, whose case expects the given elements."""

    def run(elements: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        package = tmp_path / "grain_twice"
        package.mkdir()
        (package / "__init__.py").write_text("")
        (package / "_plugin.py").write_text(textwrap.dedent(HOOKS))
        (package / "work.py").write_text(WORK.format(elements=elements))
        write_metadata(tmp_path, "grain-twice", "grain_twice._plugin")
        return subprocess.run(
            [sys.executable, "-m", "grain", "conformance", *arguments],
            env={**os.environ, "PYTHONPATH": str(tmp_path)},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )

    return run


def test_a_conforming_plugin_exits_with_0(grain, tmp_path):
    done = grain("[2, 4]", "twice", "--json", "out/report.json", "--badge", "out/badge.svg")
    assert (done.returncode, done.stderr) == (0, "")
    assert "twice: all contracts are kept, metadata and 1 case checked.\n" in done.stdout
    report = json.loads((tmp_path / "out/report.json").read_text())
    assert report["ok"] is True
    assert [case["case"] for case in report["cases"]] == ["twice", "numbers"]
    assert (tmp_path / "out/badge.svg").read_text().startswith("<svg ")


def test_a_faulty_plugin_exits_with_1_and_prints_check_reason_and_fix(grain, tmp_path):
    done = grain("[2, 5]", "twice", "--json", "report.json", "--badge", "badge.svg")
    assert done.returncode == 1
    for words in (
        "check_expected_elements",
        "expected 5, got 4",
        "fix:",
        "1 check failed, metadata and 1 case checked",
    ):
        assert words in done.stdout
    assert json.loads((tmp_path / "report.json").read_text())["ok"] is False
    assert "failing" in (tmp_path / "badge.svg").read_text()


def test_failures_that_no_other_explains_are_shown_at_the_end(grain):
    done = grain("[2, 5], expected_failures={'none': ('not-yet', 'some day')}", "twice")
    assert done.returncode == 1
    summary, first, fix, second, _ = done.stdout.splitlines()[-5:]
    assert summary == "twice: 2 checks failed, metadata and 1 case checked. Start with:"
    assert first == "  numbers: check_expected_elements"
    assert fix.startswith("    fix: ")
    assert second == "  numbers: none"


def test_the_time_budget_of_each_case_can_be_set(grain):
    assert grain("[2, 4]", "twice", "--budget", "100").returncode == 0
    done = subprocess.run(
        [sys.executable, "-m", "grain", "conformance", "twice", "--budget", "0"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "argument --budget" in done.stderr


def test_checks_beyond_the_budget_are_counted_as_not_run_with_advice(grain):
    done = grain("[2, 4]", "twice", "--budget", "0.001")
    assert done.returncode == 1
    assert "twice: 0 checks failed, " in done.stdout
    assert " not run, metadata and 1 case checked. Start with:" in done.stdout
    assert "fix: Raise the case's budget" in done.stdout


def test_a_call_that_holds_the_interpreter_ends_the_command_with_its_stack(grain):
    endless = "import re; re.match('(a+)+$', 'a' * 60 + 'b')"
    work = f"[2, 4])\n\ndef stuck(self, element):\n    {endless}\n\nTwice.map = stuck\nstr("
    done = grain(work, "twice", "--budget", "2")
    assert done.returncode == 1
    assert "in stuck" in done.stderr
    assert "check_" in done.stderr


def test_an_unknown_plugin_exits_with_1_and_one_line(grain):
    done = grain("[]", "unknown")
    assert done.returncode == 1
    assert done.stdout == ""
    assert "unknown" in done.stderr
    assert "Traceback" not in done.stderr


def test_the_checks_can_be_listed(grain):
    done = grain("[]", "--checks")
    assert done.returncode == 0
    assert "check_state_json_round_trip" in done.stdout


def test_pytest_checks_an_installed_plugin_without_a_test_file(grain, tmp_path):
    grain("[2, 4]", "--checks")
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"),
            *("-p", "grain.testing.pytest_plugin", "--grain-conformance", "twice"),
        ],
        env={**os.environ, "PYTHONPATH": str(tmp_path), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    assert " passed" in done.stdout
