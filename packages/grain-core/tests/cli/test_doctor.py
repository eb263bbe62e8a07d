"""`grain doctor`: the findings and the exit code."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from grain.cli import doctor, main
from grain.cli.doctor import environment, machine, software, workers
from grain.cli.doctor.finding import Finding, Level
from grain.version import __version__


def test_all_checks_run_and_a_good_installation_has_no_problems(start, folder) -> None:
    process = start("doctor", "--json", stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    out, err = process.communicate()
    report = json.loads(out)
    assert (process.returncode, err, report["core"]) == (0, "", __version__)
    assert report["ok"] is True
    found = {each["name"]: each for each in report["findings"]}
    assert found["python"]["detail"].startswith("CPython 3.")
    assert __version__ in found["grain"]["detail"]
    assert found["numpy"]["detail"][0].isdigit()
    assert "lines" in found["plugin lines"]["detail"]
    assert found["GRAIN_PLUGINS"]["detail"] == "'lines'"
    assert found["worker process"]["detail"].startswith("works")
    assert {"platform", "import name", "jax", "orbax-checkpoint", "cores", "memory"} <= set(found)
    assert {"shared memory", "named shared memory", "temporary files"} <= set(found)
    if sys.platform != "win32":
        assert "open files" in found
    assert all(set(each) == {"name", "detail", "level", "advice"} for each in report["findings"])


@pytest.fixture
def found(monkeypatch):
    """Replace the findings of the command."""

    def found(*findings: Finding) -> None:
        monkeypatch.setattr(doctor, "all_findings", lambda: findings)

    return found


def test_notes_are_shown_with_advice_and_do_not_fail(found, capsys) -> None:
    found(
        Finding(name="a", detail="is good"),
        Finding(name="b", detail="is small", level=Level.NOTE, advice="Make it larger."),
    )
    assert main(["doctor"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "CHECKED  STATUS  FOUND",
        "a        ok      is good",
        "b        note    is small",
        "",
        "note: b: is small",
        "  fix: Make it larger.",
        "",
        "No problems found.",
    ]


def test_problems_come_last_and_exit_with_1(found, capsys) -> None:
    found(
        Finding(name="c", detail="is broken", level=Level.PROBLEM, advice="Replace it."),
        Finding(name="b", detail="is small", level=Level.NOTE),
    )
    assert main(["doctor"]) == 1
    assert capsys.readouterr().out.splitlines()[-4:] == [
        "problem: c: is broken",
        "  fix: Replace it.",
        "",
        "1 problem.",
    ]
    assert main(["doctor", "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["ok"] is False


def test_googles_distribution_over_ours_is_a_problem(site, start, folder) -> None:
    info = site / "grain-0.2.18.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: grain\nVersion: 0.2.18\n\n")
    process = start("doctor", stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    out, err = process.communicate()
    assert (process.returncode, err) == (1, "")
    assert "problem: import name: google's own distribution 'grain' 0.2.18" in out
    assert "fix: pip uninstall grain" in out


def test_a_plugin_that_cannot_be_imported_is_a_problem(site, code, start, folder) -> None:
    (code / "lines_of_literals.py").unlink()
    process = start("doctor", stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    out, err = process.communicate()
    assert (process.returncode, err) == (1, "")
    assert "No module named 'lines_of_literals'" in out
    assert "pip install --upgrade grain-lines" in out


def test_files_that_shadow_the_library_are_noted(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "grain.py").touch()
    notes = list(software.shadowing_files(Path(software.__file__).parents[2]))
    assert [note.level for note in notes] == [Level.NOTE]
    assert str(tmp_path / "grain.py") in notes[0].detail


@pytest.mark.parametrize(
    ("quota", "level"), [(None, Level.OK), (8.0, Level.OK), (4.0, Level.OK), (1.5, Level.NOTE)]
)
def test_a_cpu_quota_below_the_number_of_cores_is_noted(quota, level) -> None:
    finding = machine.cores(4, 8, quota)
    assert finding.level is level
    assert finding.detail.startswith("4 of 8 usable")
    assert ("at most about 2" in finding.advice) == (level is Level.NOTE)


@pytest.mark.parametrize(
    ("text", "quota"), [("150000 100000", 1.5), ("max 100000", None), ("nonsense", None)]
)
def test_the_cpu_quota_is_read_from_the_control_group(tmp_path: Path, text, quota) -> None:
    (tmp_path / "cpu.max").write_text(text)
    assert machine.cpu_quota(tmp_path / "cpu.max") == quota
    assert machine.cpu_quota(tmp_path / "none") is None


@pytest.mark.parametrize(
    ("total", "free", "level"),
    [
        (8 * 2**30, 8 * 2**30, Level.OK),
        (64 * 2**20, 64 * 2**20, Level.NOTE),
        (8 * 2**30, 10 * 2**20, Level.NOTE),
    ],
)
def test_a_small_or_full_shared_memory_is_noted(total, free, level) -> None:
    finding = machine.shm_size(total, free)
    assert finding.level is level
    assert ("--shm-size" in finding.advice) == (level is Level.NOTE)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such limit")
def test_a_low_limit_of_open_files_is_noted() -> None:
    assert machine.open_files(1024, 4096).level is Level.OK
    assert machine.open_files(-1, -1).detail == "unlimited at once, at most unlimited"
    few = machine.open_files(256, 4096)
    assert (few.level, few.detail) == (Level.NOTE, "256 at once, at most 4,096")
    assert "ulimit -n" in few.advice


def test_a_failed_allocation_of_shared_memory_is_reported(monkeypatch) -> None:
    def refuse(*arguments: object, **options: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(machine.shared_memory, "SharedMemory", refuse)
    assert machine.named_memory().level is Level.PROBLEM
    monkeypatch.setattr(machine.os, "posix_fallocate", refuse)
    finding = machine.anonymous_memory()
    assert finding.level is Level.NOTE
    assert "No space left" in finding.detail
    monkeypatch.setattr(machine.tempfile, "TemporaryFile", refuse)
    assert "TMPDIR" in machine.temporary_files().advice


def test_variables_are_shown_misspelt_ones_noted_and_wrong_ones_problems() -> None:
    found = {
        each.name: each
        for each in environment.findings(
            {
                "GRAIN_PLUGINS": "parquet",
                "GRAIN_PLUGIN_DISABLE": "tfds",
                "GRAIN_PROCESS_START_TIMEOUT": "soon",
                "GRAIN_WORKER_KEEP_DEVICES": "1",
                "HOME": "/",
            }
        )
    }
    assert {name: each.level for name, each in found.items()} == {
        "GRAIN_PLUGINS": Level.OK,
        "GRAIN_PLUGIN_DISABLE": Level.NOTE,
        "GRAIN_PROCESS_START_TIMEOUT": Level.PROBLEM,
        "GRAIN_WORKER_KEEP_DEVICES": Level.OK,
    }
    assert "GRAIN_PLUGINS_DISABLE" in found["GRAIN_PLUGIN_DISABLE"].advice
    assert "'soon'" in found["GRAIN_PROCESS_START_TIMEOUT"].detail
    (nothing,) = environment.findings({})
    assert nothing.detail == "no GRAIN_… variable is set"
    assert any(
        "BYTECODE" in f.detail for f in environment.findings({"PYTHONDONTWRITEBYTECODE": "1"})
    )


@pytest.mark.parametrize(
    ("program", "level", "detail"),
    [
        ("print(0.5)", Level.OK, "works, 0.5 s from start to end"),
        ("print(11)", Level.NOTE, "works, but took 11.0 s to start"),
        ("raise OSError('no processes')", Level.PROBLEM, "ended with 1: OSError: no processes"),
        ("import os; os.kill(os.getpid(), 9)", Level.PROBLEM, "ended with -9: no message"),
    ],
)
def test_the_result_of_the_worker_process_is_reported(program, level, detail) -> None:
    finding = workers.finding(program)
    assert (finding.level, finding.detail) == (level, detail)
    assert ("num_workers=0" in finding.advice) == (level is Level.PROBLEM)


def test_a_worker_process_that_hangs_is_a_problem() -> None:
    finding = workers.finding("import threading; threading.Event().wait()", limit=0.1)
    assert finding.detail == "no elements within 0.1 seconds"
    assert finding.level is Level.PROBLEM
