"""The commands in a real terminal and in pipes: progress lines, escapes and exit codes."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

if sys.platform == "win32":
    pytest.skip("needs a Unix terminal", allow_module_level=True)

import fcntl
import pty
import struct
import termios

# The process makes the terminal its controlling terminal, so that Ctrl-C reaches it.
TAKE_TERMINAL = "import fcntl, termios\nfcntl.ioctl(0, termios.TIOCSCTTY, 0)"
CLEAR = "\r\x1b[K"


class Terminal:
    """A terminal with the command running in it."""

    def __init__(self, start, *arguments: str, columns: int = 80) -> None:
        self.master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        self.process = start(
            *arguments,
            before=TAKE_TERMINAL,
            stdin=slave,
            stdout=slave,
            stderr=slave,
            start_new_session=True,
        )
        os.close(slave)

    def type(self, text: bytes) -> None:
        os.write(self.master, text)

    def finish(self) -> tuple[int, str]:
        """Return the exit code and everything written to the terminal."""
        shown = b""
        with contextlib.suppress(OSError):  # raised when the other end is closed
            while chunk := os.read(self.master, 4096):
                shown += chunk
        os.close(self.master)
        return self.process.wait(), shown.decode().replace("\r\n", "\n")


@pytest.fixture
def rows(folder: Path) -> str:
    long = {"id": 7, "text": "a" * 300}
    Path("rows.lines").write_text(f"{long!r}\n" * 40)
    return "rows.lines"


def screen(shown: str) -> str:
    """Return the final contents of the screen, without cleared lines."""
    return "\n".join(line.rpartition(CLEAR)[2] for line in shown.split("\n"))


def test_convert_draws_a_bar_in_a_terminal_and_clears_it(start, rows) -> None:
    code, shown = Terminal(start, "convert", rows, "out.lines").finish()
    assert code == 0
    assert f"{CLEAR}converting [" in shown
    assert "of 40" in shown
    assert screen(shown).startswith("out.lines: 40 elements, ")
    assert "\x1b" not in screen(shown)


def test_a_bar_is_never_wider_than_the_terminal(start, rows) -> None:
    _, shown = Terminal(start, "convert", rows, "out.lines", columns=20).finish()
    bars = [part for part in shown.split(CLEAR) if part.startswith("converting [")]
    assert bars
    assert all(len(bar) < 20 for bar in bars)


@pytest.mark.parametrize("columns", [40, 200])
def test_peek_fits_its_lines_to_the_terminal(start, rows, columns) -> None:
    code, shown = Terminal(start, "peek", rows, "-n", "1", columns=columns).finish()
    assert code == 0
    lines = shown.splitlines()
    assert lines[0] == "rows.lines: 40 elements, LinesSource"
    assert "\x1b" not in shown
    longest = max(lines, key=len)
    assert len(longest) == columns
    assert longest.endswith("a…")


def test_bench_and_doctor_show_progress_and_leave_only_the_result(start, rows) -> None:
    options = ["--seconds", "0.01", "--workers", "0", "--threads", "0"]
    code, shown = Terminal(start, "bench", rows, *options).finish()
    assert code == 0
    assert f"{CLEAR}measuring: sequential (1 of 3)" in shown
    assert screen(shown).startswith("rows.lines: LinesSource, 40 elements of about ")
    code, shown = Terminal(start, "doctor").finish()
    assert f"{CLEAR}checking: a worker process" in shown
    assert screen(shown).startswith("CHECKED ")
    assert code == 0


def test_control_c_in_a_terminal_exits_with_130_without_a_traceback(start, wait_at, rows) -> None:
    os.mkfifo("gate")
    terminal = Terminal(start, "convert", rows, "out.lines", "-o", "gate=gate", "-o", "gate_at=20")
    wait_at("gate", terminal.process)
    terminal.type(b"\x03")
    code, shown = terminal.finish()
    assert code == 130
    assert screen(shown).strip() in ("", "^C")
    assert sorted(os.listdir()) == ["gate", "rows.lines"]


def test_control_c_while_workers_read_exits_with_130_without_a_traceback(
    start, wait_at, rows
) -> None:
    os.mkfifo("gate")
    gate = ["-o", "gate=gate", "-o", "gate_in_workers=true"]
    options = ["--seconds", "0.01", "--threads", "0", "--workers", "2"]
    terminal = Terminal(start, "bench", rows, *gate, *options)
    wait_at("gate", terminal.process)
    terminal.type(b"\x03")
    code, shown = terminal.finish()
    assert code == 130
    assert screen(shown).strip() in ("", "^C")


@pytest.mark.parametrize(
    "arguments",
    [
        ["peek", "rows.lines"],
        ["convert", "rows.lines", "out.lines"],
        ["bench", "rows.lines", "--seconds", "0.01", "--workers", "0"],
    ],
    ids=["peek", "convert", "bench"],
)
def test_in_a_pipe_there_are_no_bars_and_no_escapes(start, rows, arguments) -> None:
    process = start(*arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    out, err = process.communicate()
    assert (process.returncode, err) == (0, "")
    assert out
    assert all(line.isprintable() for line in out.splitlines())


@pytest.mark.parametrize("encoding", ["ascii", "utf-8"])
def test_characters_that_the_encoding_lacks_are_escaped(start, folder, encoding) -> None:
    text = "é\U0001f600\udcff"
    Path("odd.lines").write_text(f"{{'text': {text!a}}}\n")
    for options in ([], ["--json"]):
        process = start(
            "peek",
            "odd.lines",
            *options,
            environment={"PYTHONIOENCODING": encoding},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
        )
        out, err = process.communicate()
        assert (process.returncode, err) == (0, "")
    assert json.loads(out)["elements"][0]["leaves"][0]["value"] == text


@pytest.mark.parametrize("arguments", [["peek", "rows.lines", "-n", "40"], ["doctor", "--json"]])
def test_a_closed_pipe_is_silent(start, rows, arguments) -> None:
    read, write = os.pipe()
    process = start(*arguments, stdout=write, stderr=subprocess.PIPE)
    os.close(write)
    os.close(read)
    _, err = process.communicate()
    assert err == ""
    assert process.returncode == 1


def test_every_command_has_help_and_names_its_arguments(start, folder) -> None:
    expected = {
        "peek": ["URI", "--start", "--columns", "--json", "KEY=VALUE"],
        "bench": ["URI", "--batch", "--threads", "--workers", "--seconds", "--json"],
        "convert": ["SRC", "DST", "--force", "--write-option", "--raw", "--json"],
        "doctor": ["--json"],
    }
    for command, words in expected.items():
        process = start(command, "--help", stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        out, err = process.communicate()
        assert (process.returncode, err) == (0, "")
        assert [word for word in words if word not in out] == []
