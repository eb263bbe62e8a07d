"""`grain convert`: output, refused targets, and atomic writes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest

from grain.cli import main

ROWS = [{"id": i, "text": "x" * i} for i in range(50)]


@pytest.fixture
def rows(lines, folder: Path) -> str:
    Path("rows.lines").write_text("".join(f"{row!r}\n" for row in ROWS))
    return "rows.lines"


def written(path: str) -> list:
    return [eval(line) for line in Path(path).read_text().splitlines()]


def test_all_elements_are_written_in_order(rows, capsys) -> None:
    assert main(["convert", rows, "out.lines"]) == 0
    assert written("out.lines") == ROWS
    out, err = capsys.readouterr()
    assert out.startswith(f"out.lines: 50 elements, {os.path.getsize('out.lines'):,} bytes, ")
    assert err == ""
    assert sorted(os.listdir()) == ["out.lines", "rows.lines"]


def test_records_of_bytes_are_encoded_and_decoded_by_their_format(rows, capsys) -> None:
    assert main(["convert", rows, "out.hexed"]) == 0
    assert main(["convert", "out.hexed", "back.lines"]) == 0
    assert written("back.lines") == ROWS
    assert main(["convert", "out.hexed", "same.hexed", "--raw"]) == 0
    assert Path("same.hexed").read_text() == Path("out.hexed").read_text()


def test_start_count_and_columns_select_elements(rows, capsys) -> None:
    assert main(["convert", rows, "a.lines", "--start", "47", "--columns", "text", "--json"]) == 0
    assert written("a.lines") == [{"text": row["text"]} for row in ROWS[47:]]
    summary = json.loads(capsys.readouterr().out)
    assert (summary["path"], summary["elements"]) == ("a.lines", 3)
    assert summary["bytes"] == os.path.getsize("a.lines")
    assert main(["convert", rows, "b.lines", "--start", "5", "-n", "2"]) == 0
    assert written("b.lines") == ROWS[5:7]
    assert main(["convert", rows, "c.lines", "-n", "0"]) == 0
    assert written("c.lines") == []
    assert main(["convert", rows, "d.lines", "--start", "50"]) == 0
    assert written("d.lines") == []


def test_an_iter_source_is_converted_too(lines, folder) -> None:
    assert main(["convert", "squares://", "out.lines"]) == 0
    assert written("out.lines") == [{"square": i * i} for i in range(6)]


def test_an_existing_file_is_kept_without_force(rows, capsys) -> None:
    Path("out.lines").write_text("mine\n")
    assert main(["convert", rows, "out.lines"]) == 1
    assert capsys.readouterr().err == "grain: out.lines exists: use --force to replace it.\n"
    assert Path("out.lines").read_text() == "mine\n"
    assert main(["convert", rows, "out.lines", "--force"]) == 0
    assert written("out.lines") == ROWS


def test_a_file_can_be_replaced_by_its_own_conversion(rows) -> None:
    assert main(["convert", rows, rows, "--force", "--columns", "id"]) == 0
    assert written(rows) == [{"id": row["id"]} for row in ROWS]


def test_a_file_created_during_the_conversion_is_kept(rows, monkeypatch, capsys) -> None:
    import lines_of_literals

    write = lines_of_literals.write

    def write_slowly(path, elements):
        Path("out.lines").write_text("foreign")
        return write(path, elements)

    monkeypatch.setattr(lines_of_literals, "write", write_slowly)
    assert main(["convert", rows, "out.lines"]) == 1
    assert "exists: use --force" in capsys.readouterr().err
    assert Path("out.lines").read_text() == "foreign"
    assert sorted(os.listdir()) == ["out.lines", "rows.lines"]


@pytest.mark.parametrize("force", [[], ["--force"]], ids=["new", "forced"])
def test_a_full_disk_leaves_only_the_existing_file(rows, capsys, force) -> None:
    if force:
        Path("out.lines").write_text("mine\n")
    before = sorted(os.listdir())
    assert main(["convert", rows, "out.lines", "-w", "until=10", *force]) == 1
    err = capsys.readouterr().err
    assert err == "grain: out.lines cannot be written: [Errno 28] No space left on device\n"
    assert sorted(os.listdir()) == before
    if force:
        assert Path("out.lines").read_text() == "mine\n"


def test_an_unreadable_element_leaves_no_file(rows, capsys) -> None:
    with open("rows.lines", "a") as file:
        file.write("bad\n")
    assert main(["convert", rows, "out.lines"]) == 1
    err = capsys.readouterr().err
    assert err.startswith("grain: rows.lines: element ")
    assert err.endswith(" cannot be read: this line is bad: very bad\n")
    assert os.listdir() == ["rows.lines"]


@pytest.mark.parametrize(
    ("source", "target", "message"),
    [
        (
            "rows.fewer",
            "out.lines",
            "MiscountingSource.__getitems__ returned 7 records for 8 indices",
        ),
        ("rows.lines", "out.some", "its writer stopped after 3 elements without an error"),
        ("rows.lines", "out.miscounted", "its writer received 50 elements but returned 51"),
    ],
)
def test_a_source_or_writer_that_loses_elements_is_an_error_and_leaves_no_file(
    rows, capsys, source, target, message
) -> None:
    os.rename(rows, source)
    assert main(["convert", source, target]) == 1
    assert message in capsys.readouterr().err
    assert os.listdir() == [source]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["gone.lines", "out.lines"], "gone.lines cannot be opened: No such file or directory"),
        (["rows.lines", "no/out.lines"], "does not exist"),
        (["rows.lines", "folder.lines"], "folder.lines is a directory"),
        (["rows.lines", "out*.lines"], "is a pattern"),
        (
            ["rows.lines", "out.unknown"],
            "No installed plugin writes 'out.unknown'. Suffixes that can be",
        ),
        (["rows.lines", "out.readonly"], "no writer for it. Suffixes that can be written: "),
        (["rows.lines", "out.lines", "--columns", "nope"], "has no column 'nope'"),
    ],
)
def test_wrong_input_is_one_line_and_exit_code_1_and_no_file_is_written(
    rows, capsys, arguments, message
) -> None:
    Path("folder.lines").mkdir()
    assert main(["convert", *arguments]) == 1
    err = capsys.readouterr().err
    assert message in err
    assert err.count("\n") == 1
    assert sorted(os.listdir()) == ["folder.lines", "rows.lines"]


@pytest.mark.parametrize(
    ("number", "exit_code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
def test_a_signal_ends_the_command_silently_and_leaves_no_file(
    folder, start, wait_at, number, exit_code
) -> None:
    Path("rows.lines").write_text("".join(f"{row!r}\n" for row in ROWS))
    os.mkfifo("gate")
    options = ["-o", "gate=gate", "-o", "gate_at=30"]
    process = start(
        "convert",
        "rows.lines",
        "out.lines",
        *options,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    wait_at("gate", process)
    assert any(name.endswith(".part") for name in os.listdir())
    process.send_signal(number)
    out, err = process.communicate()
    assert (process.returncode, out, err) == (exit_code, "", "")
    assert sorted(os.listdir()) == ["gate", "rows.lines"]
