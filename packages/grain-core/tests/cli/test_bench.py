"""`grain bench`: the measured read modes and the output."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from grain.cli import main


@pytest.fixture
def rows(lines, folder: Path) -> str:
    Path("rows.lines").write_text("".join(f"{{'id': {i}}}\n" for i in range(40)))
    return "rows.lines"


def measured(capsys, *arguments: str) -> dict:
    assert main(["bench", *arguments, "--seconds", "0.01", "--json"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    return json.loads(out)


def ways(report: dict) -> list[tuple]:
    return [(c["order"], c["batch"], c["threads"], c["workers"]) for c in report["cases"]]


def test_every_read_mode_is_measured(rows, capsys) -> None:
    report = measured(capsys, rows, "--batch", "8", "--threads", "2", "--workers", "1")
    assert (report["uri"], report["source"], report["length"]) == (rows, "LinesSource", 40)
    assert ways(report) == [
        ("sequential", 0, 0, 0),
        ("shuffled", 0, 0, 0),
        ("shuffled", 8, 0, 0),
        ("shuffled", 8, 2, 0),
        ("shuffled", 8, 0, 1),
    ]
    for case in report["cases"]:
        assert case["failure"] == ""
        assert case["elements"] > 0
        assert case["elements_per_second"] == pytest.approx(case["elements"] / case["seconds"])
        assert case["first_seconds"] > 0
        assert case["elements"] % max(1, case["batch"]) == 0


def test_threads_and_workers_can_be_skipped_and_batches_fit_the_source(rows, capsys) -> None:
    report = measured(capsys, rows, "--batch", "1000", "--threads", "0", "--workers", "0")
    assert ways(report) == [("sequential", 0, 0, 0), ("shuffled", 0, 0, 0), ("shuffled", 40, 0, 0)]


def test_the_default_output_is_a_table(rows, capsys) -> None:
    options = ["--seconds", "0.01", "--workers", "0", "--threads", "1"]
    assert main(["bench", rows, *options]) == 0
    first, header, *table = capsys.readouterr().out.splitlines()
    assert first == "rows.lines: LinesSource, 40 elements of about 32 bytes"
    assert header.split() == ["READ", "ELEMENTS/S", "MB/S", "FIRST", "AFTER"]
    labels = [line.split("  ")[0] for line in table]
    assert labels == [
        "sequential",
        "shuffled",
        "shuffled, batches of 32",
        "shuffled, batches of 32, 1 thread",
    ]


def test_elements_that_do_not_stack_are_measured_one_by_one(lines, folder, capsys) -> None:
    Path("odd.lines").write_text("{'a': [1, 2]}\n{'a': [1]}\n")
    options = ["--seconds", "0.01", "--workers", "0", "--threads", "0"]
    assert main(["bench", "odd.lines", *options]) == 0
    *_, single, batch = capsys.readouterr().out.splitlines()
    assert single.startswith("shuffled ")
    assert batch.startswith("shuffled, batches of 2  -           -     ")
    assert "structure" in batch


def test_iter_sources_are_measured_sequentially(lines, capsys) -> None:
    report = measured(capsys, "squares://", "--workers", "0", "--columns", "square")
    assert report["length"] is None
    assert ways(report) == [("sequential", 0, 0, 0), ("sequential", 32, 0, 0)]
    assert not any(case["failure"] for case in report["cases"])


def test_columns_are_selected_in_the_pipeline(rows, capsys) -> None:
    report = measured(capsys, rows, "--columns", "id", "--workers", "0", "--threads", "0")
    assert not any(case["failure"] for case in report["cases"])


@pytest.mark.parametrize(
    ("uri", "message"),
    [
        ("none.lines", "none.lines is empty: nothing to measure."),
        ("gone.lines", "gone.lines cannot be opened: No such file or directory: gone.lines"),
        ("bad.lines", "bad.lines: element 0 cannot be read: this line is bad: very bad"),
    ],
)
def test_a_source_that_cannot_be_measured_is_one_line_and_exit_code_1(
    lines, folder, capsys, uri, message
) -> None:
    Path("none.lines").touch()
    Path("bad.lines").write_text("bad\n")
    assert main(["bench", uri]) == 1
    assert capsys.readouterr().err == f"grain: {message}\n"


@pytest.mark.parametrize("wrong", ["--batch=0", "--workers=-1", "--seconds=0", "--seconds=soon"])
def test_wrong_arguments_exit_with_2(wrong, capsys) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["bench", "a.lines", wrong])
    assert ended.value.code == 2
    assert "usage: grain bench" in capsys.readouterr().err
