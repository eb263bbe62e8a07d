"""Run the conformance checks on sources of other libraries, and explain each failure on a page.

Usage:
    python tools/thirdparty.py [--only TEXT]

A failure that no other failure explains needs an explanation in `tests/thirdparty/explanations.py`, whose
program must show that the reported behaviour is real; otherwise this program fails. The page is written
unless `--only` selects some of the subjects.
"""

from __future__ import annotations

import argparse
import inspect
import pathlib
import sys
from collections.abc import Iterator
from dataclasses import replace
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

Any object with `__len__` and `__getitem__` can be passed to `grain.MapDataset.source`. This page shows what
the [conformance checks](conformance.md) say about sources that other libraries provide, and a short program
for every failure that shows it is real. Failures that follow from another one are left out. Written by
`nox -s thirdparty` from `tests/thirdparty`.
"""


def verdict(report: Any, directory: str, explanations: list[Any]) -> Iterator[str]:
    """Yield the lines of one subject; raise for a failure without an explanation that holds."""
    roots = {result.check: result for result in report.root_failures}
    unexplained = set(roots) - {check for each in explanations for check in each.checks}
    if unexplained:
        reasons = "\n".join(f"{name}: {roots[name].reason}" for name in sorted(unexplained))
        raise SystemExit(f"{report.case.name}: no explanation for\n{reasons}")
    for each in explanations:
        found = [check for check in each.checks if check in roots]
        if not found:
            raise SystemExit(f"{report.case.name}: {', '.join(each.checks)} pass now: {each.text}")
        shown = each.shows(directory)
        yield f"- **{', '.join(f'`{check}`' for check in found)}**: {each.text}\n"
        source = inspect.getsource(getattr(each.shows, "func", each.shows)).splitlines()
        assert len(source) <= 10, f"{each.shows} is longer than ten lines"
        yield "\n  <!-- not run: `nox -s thirdparty` runs it -->\n  ```python\n"
        yield "".join(f"  {line}\n" if line else "\n" for line in source)
        yield f"  ```\n\n  Result: `{shown}`\n\n"


def main(argv: list[str]) -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", default="")
    only = parser.parse_args(argv).only
    sys.path.insert(0, str(ROOT))
    from tests.thirdparty.explanations import EXPLANATIONS
    from tests.thirdparty.subjects import cases

    from grain.testing import Subject, run

    table = ["| source | version | passed | failed | verdict |", "| --- | --- | --- | --- | --- |"]
    details = []
    for case in cases():
        if only not in case.name:
            continue
        # Libraries that take long to import do so in every new process.
        report = run(replace(case, check_timeout=900, budget=7200))
        print(report.summary(), flush=True)
        explanations = [each for each in EXPLANATIONS if each.subject == case.name]
        subject = Subject(case)
        lines = list(verdict(report, subject.directory or "", explanations))
        package = next(name for word, name in PACKAGES.items() if word in case.name)
        passed = sum(result.outcome.value == "passed" for result in report.results)
        word = "conforms" if report.ok else f"{len(report.root_failures)} to fix"
        table.append(
            f"| {case.name} | {metadata.version(package)} | {passed} | {len(report.failures)} | {word} |"
        )
        if lines:
            details.append(f"## {case.name}\n\n" + "".join(lines))
    text = "\n".join([INTRODUCTION, *table, "", *details])
    if not only:
        PAGE.write_text(text.rstrip("\n") + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
