"""Run the conformance checks on sources of other libraries, and explain each failure on a page.

Usage:
    python tools/thirdparty.py [--only TEXT]

A failure that no other failure explains needs an explanation in `tests/thirdparty/explanations.py`, whose
program must show that the reported behaviour is real; otherwise this program fails. Sources of a library
that is not installed are shown as not run. The page is written unless `--only` selects some of the subjects.
"""

from __future__ import annotations

import argparse
import inspect
import json
import pathlib
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from importlib import metadata
from typing import Any

ROOT = pathlib.Path(__file__).parent.parent
PAGE = ROOT / "docs/conformance-third-party.md"
PACKAGES = {
    "numpy": "numpy",
    "datasets": "datasets",
    "tfds": "tensorflow-datasets",
    "lance": "pylance",
    "bagz": "bagz",
    "zarr": "zarr",
    "h5py": "h5py",
    "pandas": "pandas",
    "polars": "polars",
    "torch": "torch",
    "webdataset": "webdataset",
}
INTRODUCTION = """\
# Sources of other libraries

Any object with `__len__` and `__getitem__` can be passed to `grain.MapDataset.source`. This page shows
what the [conformance checks](conformance.md) say about sources that other libraries provide, and for every
failure a short program that shows it is real; a failure that follows from another one is left out. `raised`
calls a function and returns its exception, which must not be an `IndexError`; `COUNT` is 12, and `MATRIX` an
array of 12 rows. A program that a section before has shown is not repeated. Written by
`nox -s thirdparty` from `tests/thirdparty`.
"""
HEADER = ("| source | version | passed | failed | verdict |", "| --- | --- | --- | --- | --- |")


class Unexplained(Exception):  # noqa: N818 (a finding about explanations)
    """A failure has no explanation, or an explanation no failure."""


@dataclass(frozen=True, kw_only=True)
class Finding:
    """A failure of checks, and the program that shows that it is real.

    Attributes:
        checks: The names of the checks.
        text: What to do about it.
        program: The source of the program.
        result: Its result.
    """

    checks: list[str]
    text: str
    program: str
    result: str


def installed_version(package: str) -> str | None:
    """Return the version of an installed distribution; None if there is none."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def findings(report: Any, directory: str, explanations: list[Any]) -> Iterator[Finding]:
    """Yield the failures of one subject; raise for one without an explanation that holds."""
    roots = {result.check: result for result in report.root_failures}
    unexplained = set(roots) - {check for each in explanations for check in each.checks}
    if unexplained:
        reasons = "\n".join(f"{name}: {roots[name].reason}" for name in sorted(unexplained))
        raise Unexplained(f"{report.case.name}: no explanation for\n{reasons}")
    for each in explanations:
        found = [check for check in each.checks if check in roots]
        if not found:
            raise Unexplained(f"{report.case.name}: {', '.join(each.checks)} pass now: {each.text}")
        program = inspect.getsource(getattr(each.shows, "func", each.shows))
        assert len(program.splitlines()) <= 10, f"{each.shows} is longer than ten lines"
        yield Finding(
            checks=found, text=each.text, program=program, result=str(each.shows(directory))
        )


def examine(name: str, result: pathlib.Path) -> None:
    """Run the checks on one subject, and write its verdict."""
    from tests.thirdparty.explanations import EXPLANATIONS
    from tests.thirdparty.subjects import cases

    from grain.testing import Subject, run

    [case] = [case for case in cases() if case.name == name]
    # A library that takes long to import does so in every new process.
    report = run(replace(case, check_timeout=180, budget=1800))
    print(report.summary(), flush=True)
    explanations = [each for each in EXPLANATIONS if each.subject == name]
    subject = Subject(case)  # removes the directory when it is freed
    passed = sum(result.outcome.value == "passed" for result in report.results)
    word = "conforms" if report.ok else f"{len(report.root_failures)} to fix"
    version = installed_version(package_of(name))
    functions = [function for function in (case.prepare, case.make) if function is not None]
    verdict = {
        "row": f"| {name} | {version} | {passed} | {len(report.failures)} | {word} |",
        "source": "\n\n".join(map(inspect.getsource, functions)),
        "findings": [
            asdict(each) for each in findings(report, subject.directory or "", explanations)
        ],
    }
    result.write_text(json.dumps(verdict), encoding="utf-8")


def section(name: str, verdict: dict[str, Any], shown: set[str]) -> str:
    """Return the section of a subject; programs in `shown`, which others have had, are left out."""
    lines = [f"## {name}", "", *code(verdict["source"])]
    for each in (Finding(**fields) for fields in verdict["findings"]):
        names = ", ".join(f"`{check}`" for check in each.checks)
        text = textwrap.wrap(f"**{names}**: {each.text}", 118, break_on_hyphens=False)
        lines += textwrap.indent("\n".join(text), "  ").replace("  ", "- ", 1).split("\n")
        program = [] if each.program in shown else ["", *code(each.program)[:-1]]
        shown.add(each.program)
        lines += [
            f"  {line}" if line else "" for line in (*program, "", f"Result: `{each.result}`")
        ]
        lines.append("")
    return "\n".join(lines)


def code(text: str) -> list[str]:
    """Return the lines of a program on the page."""
    mark = "<!-- not run: `nox -s thirdparty` runs it -->"
    return [mark, "```python", *text.rstrip("\n").split("\n"), "```", ""]


def package_of(name: str) -> str:
    """Return the distribution that contains a subject."""
    return next(package for word, package in PACKAGES.items() if word in name)


def examine_in_process(name: str) -> dict[str, Any] | None:
    """Return the verdict on a subject, from a process of its own; None for a failure without explanation.

    Libraries start threads and change the settings of their process, which would affect the next subject.
    """
    with tempfile.TemporaryDirectory(prefix="grain-thirdparty-") as folder:
        result = pathlib.Path(folder) / "result.json"
        command = [sys.executable, "-W", "ignore", __file__, "--subject", name, "--result", result]
        if subprocess.run(command, check=False).returncode:
            return None
        verdict: dict[str, Any] = json.loads(result.read_text(encoding="utf-8"))
        return verdict


def not_run(name: str) -> dict[str, Any]:
    """Return the verdict on a subject whose library is not installed."""
    package = package_of(name)
    print(f"{name}: NOT RUN, {package} is not installed", flush=True)
    row = f"| {name} | | | | not run: {package} could not be installed |"
    return {"row": row, "source": "", "findings": []}


def main(argv: list[str]) -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", default="")
    parser.add_argument("--subject", help=argparse.SUPPRESS)
    parser.add_argument("--result", type=pathlib.Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args(argv)
    sys.path.insert(0, str(ROOT))
    from tests.thirdparty.subjects import cases

    if arguments.subject:
        try:
            examine(arguments.subject, arguments.result)
        except (Unexplained, AssertionError) as error:
            print(error, file=sys.stderr, flush=True)
            return 1
        return 0
    names = [case.name for case in cases() if arguments.only in case.name]
    verdicts = {
        name: not_run(name)
        if installed_version(package_of(name)) is None
        else examine_in_process(name)
        for name in names
    }
    found = {name: verdict for name, verdict in verdicts.items() if verdict is not None}
    if len(found) < len(verdicts):
        return 1
    if not arguments.only:
        shown: set[str] = set()
        sections = [
            section(name, verdict, shown) for name, verdict in found.items() if verdict["findings"]
        ]
        rows = [verdict["row"] for verdict in found.values()]
        text = "\n".join([INTRODUCTION, *HEADER, *rows, "", *sections])
        PAGE.write_text(text.rstrip("\n") + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
