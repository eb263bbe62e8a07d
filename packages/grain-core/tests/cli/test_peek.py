"""`grain peek`: elements, their types, shapes and short values."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from grain.cli import main
from grain.cli.describe import leaves_of
from grain.cli.source_reader import reason

ROWS = [{"id": i, "text": "x" * i, "deep": {"list": [i, None]}} for i in range(7)]


@pytest.fixture
def rows(lines, folder: Path) -> str:
    Path("rows.lines").write_text("".join(f"{row!r}\n" for row in ROWS))
    return "rows.lines"


def test_the_first_elements_are_shown_with_index_path_type_and_value(rows, capsys) -> None:
    assert main(["peek", rows, "-n", "2"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert out.splitlines() == [
        "rows.lines: 7 elements, LinesSource",
        "",
        "[0]",
        "  id         int      0",
        "  text       str[0]   ''",
        "  deep.list  list[2]  [0, None]",
        "",
        "[1]",
        "  id         int      1",
        "  text       str[1]   'x'",
        "  deep.list  list[2]  [1, None]",
    ]


def test_a_long_key_leaves_room_for_types_and_values(lines, folder, capsys) -> None:
    long = {"a_key_" * 30 + "end": 3, "text": "x" * 9, "n" * 30: "y" * 200}
    Path("long.lines").write_text(f"{long!r}\n")
    assert main(["peek", "long.lines"]) == 0
    first, second, third = capsys.readouterr().out.splitlines()[3:]
    assert first.startswith("  a_key_a_key_")
    assert "…" in first
    assert first.split()[0].endswith("end")
    assert first.split()[1:] == ["int", "3"]
    assert second.split()[1:] == ["str[9]", f"'{'x' * 9}'"]
    assert third.startswith(f"  {'n' * 30} ")
    assert all(len(line) <= 120 for line in (first, second, third))


def test_five_elements_are_shown_by_default(rows, capsys) -> None:
    assert main(["peek", rows]) == 0
    indices = [line for line in capsys.readouterr().out.splitlines() if line.startswith("[")]
    assert indices == ["[0]", "[1]", "[2]", "[3]", "[4]"]
    assert main(["peek", rows, "-n", "0"]) == 0
    assert capsys.readouterr().out == "rows.lines: 7 elements, LinesSource\n"


@pytest.mark.parametrize(
    ("start", "indices"), [("5", [5, 6]), ("-2", [5, 6]), ("-99", [0, 1, 2, 3, 4]), ("6", [6])]
)
def test_start_selects_the_first_element_and_the_source_ends_the_output(
    rows, capsys, start, indices
) -> None:
    assert main(["peek", rows, "--start", start, "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)["elements"]
    assert [element["index"] for element in shown] == indices
    assert [element["leaves"][0]["value"] for element in shown] == indices


def test_json_contains_source_length_and_leaves(rows, capsys) -> None:
    assert main(["peek", rows, "-n", "1", "--start", "2", "--json", "--columns", "text"]) == 0
    assert json.loads(capsys.readouterr().out) == {
        "uri": "rows.lines",
        "source": "LinesSource",
        "length": 7,
        "elements": [
            {
                "index": 2,
                "leaves": [
                    {"path": "text", "type": "str", "shape": [2], "text": "'xx'", "value": "xx"}
                ],
            }
        ],
    }


def test_an_empty_source_is_not_an_error(lines, folder, capsys) -> None:
    Path("none.lines").touch()
    assert main(["peek", "none.lines"]) == 0
    assert capsys.readouterr().out == "none.lines: 0 elements, LinesSource\n"
    assert main(["peek", "none.lines", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["elements"] == []


def test_records_of_bytes_are_decoded_unless_raw_is_given(lines, folder, capsys) -> None:
    Path("a.hexed").write_text((b"!{'id': 3}").hex() + "\n" + b"foreign".hex() + "\n")
    assert main(["peek", "a.hexed"]) == 0
    assert "  id  int  3\n" in (out := capsys.readouterr().out)
    assert "  bytes[7]  b'foreign'\n" in out
    assert main(["peek", "a.hexed", "--raw", "-n", "1"]) == 0
    assert "  bytes[10]  b\"!{'id': 3}\"\n" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["gone.lines"], "gone.lines cannot be opened: No such file or directory: gone.lines"),
        (["rows.lines", "--columns", "id,nope"], "element 0 has no column 'nope'; it has id, text"),
        (["rows.lines", "--start", "7"], "--start 7 is out of range: rows.lines has 7 elements"),
        (["bad.lines"], "bad.lines: element 0 cannot be read: this line is bad: very bad"),
        (["x.unknown"], "No installed plugin opens 'x.unknown'"),
        (["."], ". is a directory: give its files as a quoted pattern, such as"),
        (["rows.lines", "-o", "needs=s3fs"], "rows.lines cannot be opened: Install s3fs"),
        (["ghost://x"], "No installed plugin opens 'ghost://x'"),
        (
            ["plain.lines", "--columns", "id"],
            "--columns needs elements that are dicts, but element 0 is int",
        ),
    ],
)
def test_wrong_input_is_one_line_and_exit_code_1(rows, capsys, arguments, message) -> None:
    Path("bad.lines").write_text("bad\n")
    Path("plain.lines").write_text("3\n")
    assert main(["peek", *arguments]) == 1
    err = capsys.readouterr().err
    assert err.startswith("grain: ")
    assert message in err
    assert err.count("\n") == 1


def test_a_published_plugin_that_is_not_installed_is_named_with_its_install_command(
    folder, start
) -> None:
    process = start("peek", "a.parquet", stderr=-1)
    err = process.communicate()[1]
    assert process.returncode == 1
    # In this process every other plugin is blocked or not installed.
    assert "grain-parquet" in err
    assert "pip install" in err or "GRAIN_PLUGINS" in err


def test_a_defect_of_a_source_keeps_its_traceback(lines, folder) -> None:
    Path("bug.lines").write_text("bug\n")
    with pytest.raises(AttributeError, match="a bug"):
        main(["peek", "bug.lines"])


@pytest.mark.parametrize(
    "arguments",
    [["peek"], ["peek", "a", "-n", "-1"], ["peek", "a", "-n", "x"], ["peek", "a", "-o", "novalue"]],
)
def test_wrong_arguments_exit_with_2(arguments, capsys) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    assert "usage: grain peek" in capsys.readouterr().err


def test_iter_sources_are_read_sequentially(lines, capsys) -> None:
    assert main(["peek", "squares://", "--start", "4", "--json", "--columns", "square"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["length"] is None
    values = [(e["index"], e["leaves"][0]["value"]) for e in shown["elements"]]
    assert values == [(4, 16), (5, 25)]
    assert main(["peek", "squares://", "-n", "1"]) == 0
    assert "squares://: elements in sequence, Squares\n\n[0]" in capsys.readouterr().out
    assert main(["peek", "squares://", "--start", "-1"]) == 1
    assert "no known length" in capsys.readouterr().err


def test_leaves_of_every_kind_are_one_line_and_safe_to_print() -> None:
    class Rude:
        def __repr__(self) -> str:
            return "\x1b[2J\nboo"

    element = {
        "image": np.zeros((480, 640, 3), np.uint8),
        "scalar": np.float32(1.5),
        "bytes": b"\x1b[31m" * 1000,
        "text": "a\nb" * 1000,
        "none": None,
        "tuple": (1, "a"),
        "tokens": list(range(1000)),
        "boxes": [{"x": 1}, {"x": 2}, {"x": 3}, {"x": 4}],
        "grid": [[1, 2], [3, 4], [5, 6]],
        "ragged": [[1, 2], [3]],
        "empty": {},
        "nan": float("nan"),
        "rude": Rude(),
        "rude\x1b[2Jkey": 1,
        3: "number as key",
    }
    leaves = {leaf.path: leaf for leaf in leaves_of(element)}
    assert leaves["image"].row() == ("image", "uint8[480, 640, 3]", leaves["image"].text)
    assert leaves["image"].value is None
    assert leaves["scalar"].row() == ("scalar", "float32", "1.5")
    assert leaves["tokens"].row() == ("tokens", "list[1000]", "[0, 1, 2, 3, 4, 5, …]")
    assert leaves["boxes[2].x"].value == 3
    assert leaves["boxes[3:]"].text == "1 more"
    assert leaves["grid"].row() == ("grid", "list[3, 2]", "[[1, 2], [3, 4], [5, 6]]")
    assert leaves["grid"].value == [[1, 2], [3, 4], [5, 6]]
    assert leaves["ragged[1]"].value == [3]
    assert leaves["empty"].text == "{}"
    assert leaves["nan"].value is None
    assert leaves["3"].value == "number as key"
    assert leaves["tuple"].value == [1, "a"]
    for leaf in leaves.values():
        assert all(column.isprintable() for column in leaf.row())
        assert len(leaf.text) <= 500
        json.dumps(leaf.as_data(), allow_nan=False)


def test_a_reason_is_one_line_of_a_bounded_length() -> None:
    assert reason(ValueError("several\n  lines")) == "several lines"
    assert reason(OSError(2, "No such file", "a")) == "No such file: a"
    assert reason(KeyError("x")) == "KeyError: 'x'"
    assert reason(ValueError()) == "ValueError"
    assert len(reason(ValueError("all datasets there are, " * 1000))) == 501


def test_a_pattern_expanded_by_the_shell_gets_advice_to_quote_it(rows, capsys) -> None:
    Path("more.lines").touch()
    with pytest.raises(SystemExit, match="2"):
        main(["peek", rows, "more.lines"])
    assert "unrecognized arguments: more.lines. Quote a pattern" in capsys.readouterr().err
    with pytest.raises(SystemExit, match="2"):
        main(["peek", rows, "--nothing"])
    assert "unrecognized arguments: --nothing\n" in capsys.readouterr().err
