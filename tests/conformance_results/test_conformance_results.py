"""The committed results of the conformance matrix are complete, good, and shown in the docs."""

from __future__ import annotations

import copy
import json
import pathlib
import tomllib

import pytest
from tools import conformance_results as results

from grain.testing import CHECKS

ROOT = pathlib.Path(__file__).parents[2]
RECORDS = results.read_records()
KINDS = ("iter-source", "source", "transform")

each_plugin = pytest.mark.parametrize("plugin", RECORDS)


def project(folder: pathlib.Path) -> dict:
    return tomllib.loads((folder / "pyproject.toml").read_text())["project"]


def plugins() -> set[str]:
    folders = [*ROOT.glob("packages/*"), *ROOT.glob("examples/*")]
    projects = [project(folder) for folder in folders if (folder / "pyproject.toml").is_file()]
    points = [each.get("entry-points", {}).get("grain.plugins", {}) for each in projects]
    return {name for names in points for name in names}


def cells() -> set[str]:
    prefix = "Programming Language :: Python :: 3."
    classifiers = project(ROOT / "packages/grain-core")["classifiers"]
    pythons = [f"3.{c.removeprefix(prefix)}" for c in classifiers if c.startswith(prefix)]
    return {f"{python}-{deps}" for python in pythons for deps in ("lowest", "latest")}


def report(**outcomes: str) -> dict:
    found = [{"check": c, "outcome": outcome, "reason": "so"} for c, outcome in outcomes.items()]
    case = {"case": "one", "kind": "map-source", "missing": [], "results": found}
    return {"plugin": "mine", "cases": [case]}


@pytest.fixture
def files(tmp_path, monkeypatch):
    """Compare a report with a record, without installed plugins."""
    monkeypatch.setattr(results, "versions", lambda plugin: {"numpy": "2.0"})
    record = tmp_path / "mine/3.11-latest.json"

    def compare(report: dict, *options: str) -> int:
        (tmp_path / "report.json").write_text(json.dumps(report))
        return results.main(["compare", str(tmp_path / "report.json"), str(record), *options])

    compare.record = record
    return compare


def test_every_plugin_and_every_template_has_a_record():
    # The checks of the executor for Ray need a cluster, which its own session starts.
    assert set(RECORDS) == (plugins() - {"ray"}) | {f"new-{kind}" for kind in KINDS}


@each_plugin
def test_there_is_a_record_for_every_python_with_lowest_and_latest_dependencies(plugin):
    assert set(RECORDS[plugin]) == cells()


@each_plugin
def test_every_outcome_is_in_order(plugin):
    for cell, record in RECORDS[plugin].items():
        for case, outcomes in record["cases"].items():
            assert set(outcomes.values()) <= results.GOOD, (cell, case)


@each_plugin
def test_every_cell_ran_all_the_checks_there_are_on_the_same_cases(plugin):
    cases = {cell: set(record["cases"]) for cell, record in RECORDS[plugin].items()}
    assert len(set(map(frozenset, cases.values()))) == 1, cases
    for cell, record in RECORDS[plugin].items():
        for case, outcomes in record["cases"].items():
            kind = case.rpartition("(")[2].rstrip(")")
            assert set(outcomes) == {check.name for check in CHECKS if kind in check.kinds}, cell


def test_the_page_shows_what_the_records_say():
    assert results.main(["page"]) == 0


def test_a_report_equal_to_the_record_passes(files, capsys):
    assert files(report(a="passed", b="skipped"), "--update") == 0
    assert files(report(a="passed", b="skipped")) == 0
    assert "1 passed" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("now", "message"),
    [
        ({"a": "passed", "b": "passed"}, "b: skipped before, passed now"),
        ({"a": "expected failure", "b": "skipped"}, "a: passed before, expected failure now"),
        ({"a": "passed"}, "b: skipped before, missing now"),
        ({"a": "passed", "b": "skipped", "c": "passed"}, "c: missing before, passed now"),
    ],
)
def test_a_changed_outcome_fails_until_the_record_is_updated(files, capsys, now, message):
    files(report(a="passed", b="skipped"), "--update")
    assert files(report(**now)) == 1
    assert message in capsys.readouterr().out
    assert files(report(**now), "--update") == 0
    assert files(report(**now)) == 0


@pytest.mark.parametrize("outcome", ["failed", "unexpected pass"])
def test_a_broken_contract_fails_even_when_the_record_agrees(files, capsys, outcome):
    assert files(report(a=outcome), "--update") == 1
    assert files(report(a=outcome)) == 1
    assert f"one: a: {outcome}: so" in capsys.readouterr().out


def test_a_report_without_cases_or_with_a_missing_check_fails(files):
    assert files({"plugin": "mine", "cases": []}, "--update") == 1
    lacking = report(a="passed")
    lacking["cases"][0]["missing"] = ["b"]
    assert files(lacking, "--update") == 1


def test_a_missing_record_fails(files, capsys):
    assert files(report(a="passed")) == 1
    assert "does not exist" in capsys.readouterr().out
    assert not files.record.exists()


def test_changed_versions_alone_pass(files, monkeypatch):
    files(report(a="passed"), "--update")
    monkeypatch.setattr(results, "versions", lambda plugin: {"numpy": "2.1"})
    assert files(report(a="passed")) == 0


def test_the_page_shows_the_worst_outcome_and_the_range_of_versions():
    record = {
        "plugin": "mine",
        "versions": {"numpy": "1.9"},
        "cases": {"one": {"a": "passed", "b": "skipped"}, "two": {"a": "skipped", "b": "skipped"}},
    }
    other = copy.deepcopy(record)
    other["versions"]["numpy"] = "1.26"
    other["cases"]["one"]["a"] = "failed"
    shown = results.page({"mine": {"3.9-lowest": record, "3.11-latest": other}})
    assert "| plugin | 3.9, lowest | 3.11, latest |" in shown
    assert "| `mine` | 1 passed | 0 passed, 1 failed |" in shown
    assert "| `mine` | numpy 1.9 … 1.26 |" in shown
    assert "| `a` | **failed** |" in shown
    assert "| `b` | - |" in shown
