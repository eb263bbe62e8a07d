"""`grain view`, and `grain peek` for pipelines: scripts, modules, nodes, steps, and the live page."""

from __future__ import annotations

import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import textwrap
import urllib.request

import pytest

from grain.cli import main
from grain.cli.pipeline_target import parse_target

from ..observe.sample_statistics import sample_statistics

SCRIPT = """
import numpy as np
import grain

print("imported")

def decode(x):
    return {"x": np.full((2, 2), x), "id": int(x)}

def is_odd(element):
    return element["id"] % 2 == 1

rows = grain.MapDataset.range(20).map(decode)
dataset = rows.filter(is_odd).to_iter_dataset().mp_prefetch(num_workers=2).batch(2)

def make():
    return rows.batch(5)

def make_with(count):
    return rows

def broken():
    raise ValueError("<bad>")

number = 3

if __name__ == "__main__":
    import sys
    print("arguments", sys.argv[1:])
    print("elements", sum(1 for _ in dataset))
    sys.exit(3)
"""


@pytest.fixture
def script(tmp_path: pathlib.Path, monkeypatch) -> str:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    (tmp_path / "train_script.py").write_text(SCRIPT)
    yield "train_script.py"
    for name, module in list(sys.modules.items()):
        if str(getattr(module, "__file__", None)).startswith(str(tmp_path)):
            del sys.modules[name]


def run_grain(*arguments: str, folder: pathlib.Path, **options) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "grain", *arguments]
    return subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=100, **options
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("train.py", ("train.py", None)),
        ("a/b/train.py:ds", ("a/b/train.py", "ds")),
        (r"C:\code\train.py:ds", (r"C:\code\train.py", "ds")),
        ("train.py:a.b", ("train.py", "a.b")),
        ("package.module:make", ("package.module", "make")),
        ("data.parquet", None),
        ("parquet:///data", None),
        ("tfds://mnist", None),
        ("train.py:", None),
        ("train.py:1x", None),
        ("", None),
        (":", None),
        ("data/*.array_record", None),
    ],
)
def test_pipelines_are_distinguished_from_data(text, expected):
    found = parse_target(text)
    assert (None if found is None else (found.place, found.attribute)) == expected


def test_the_elements_of_the_only_dataset_of_a_script_are_shown(script, capsys):
    assert main(["peek", script, "-n", "1"]) == 0
    out, err = capsys.readouterr()
    assert out.splitlines() == [
        "train_script.py: node 5, batch(2): elements in sequence",
        "",
        "[0]",
        "  id  int64[2]        [1 3]",
        "  x   int64[2, 2, 2]  [[[1 1] [1 1]] [[3 3] [3 3]]]",
    ]
    assert err == "imported\n"


@pytest.mark.parametrize(
    ("node", "step", "first"),
    [
        ("0", "3", 3),
        ("range", "-1", 19),
        ("map", "4", {"x": [[4, 4], [4, 4]], "id": 4}),
        ("decode", "0", {"x": [[0, 0], [0, 0]], "id": 0}),
        ("map(decode)", "0", {"x": [[0, 0], [0, 0]], "id": 0}),
        ("to_iter_dataset", "2", {"x": [[5, 5], [5, 5]], "id": 5}),
        ("mp_prefetch", "1", {"x": [[3, 3], [3, 3]], "id": 3}),
        ("batch", "4", {"id": [17, 19], "x": [[[17, 17], [17, 17]], [[19, 19], [19, 19]]]}),
    ],
)
def test_any_node_and_step_can_be_shown(script, capsys, node, step, first):
    command = ["peek", f"{script}:dataset", "--node", node, "--step", step, "-n", "1", "--json"]
    assert main(command) == 0
    shown = json.loads(capsys.readouterr().out)
    (element,) = shown["elements"]
    assert element["step"] == (int(step) if int(step) >= 0 else 20 + int(step))
    values = {leaf["path"]: leaf["value"] for leaf in element["leaves"]}
    assert (values if isinstance(first, dict) else values[""]) == first
    assert [each["id"] for each in shown["nodes"]] == [0, 1, 2, 3, 4, 5]


def test_elements_that_a_filter_dropped_are_named(script, capsys):
    assert main(["peek", script, "--node", "filter", "-n", "2"]) == 0
    out = capsys.readouterr().out
    assert "[0]\n  dropped by a filter\n\n[1]\n  x " in out


def test_a_function_that_returns_a_dataset_is_called(script, capsys):
    assert main(["peek", f"{script}:make", "-n", "9"]) == 0
    assert capsys.readouterr().out.count("[") >= 4


def test_a_module_is_imported_from_the_folder(script, capsys):
    assert main(["peek", "train_script:make", "-n", "1"]) == 0
    assert capsys.readouterr().out.startswith("train_script:make: node 2, batch(5): 4 elements")


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["peek", "{}:nothing"], 1, "has no 'nothing'; give one of its datasets: {}:dataset."),
        (["peek", "{}:number"], 1, "is of type int; expected a MapDataset"),
        (["peek", "{}:make_with"], 2, "needs the arguments count"),
        (["peek", "{}:broken"], 1, "ValueError: <bad> at"),
        (["peek", "{}", "--node", "9"], 2, "names no node of {}. Give a number: 0: range(20)"),
        (["peek", "{}", "--step", "-1"], 2, "must not be negative"),
        (["peek", "{}", "--step", "99"], 1, "ended after 5 elements"),
        (["peek", "{}", "--node", "0", "--step", "99"], 1, "range(20) has 20 elements"),
        (["peek", "{}", "--columns", "a"], 2, "--columns is for data"),
        (["peek", "{}", "--raw"], 2, "--raw is for data"),
        (["peek", "{}", "-o", "a=1"], 2, "-o is for data"),
        (["peek", "{}", "--step", "1", "--start", "1"], 2, "give one of them"),
        (["peek", "data.parquet", "--step", "1"], 2, "--step is for pipelines"),
        (["peek", "missing.py"], 1, "missing.py is not a file"),
        (["peek", "missing_module:x"], 1, "There is no module 'missing_module'"),
        (["view", "data/x.parquet"], 2, "is not a pipeline"),
        (["view", "{}", "--text", "-o", "x.html"], 2, "leave out -o"),
        (["view", "{}", "--port", "1"], 2, "--port can be given with --live only"),
        (["view", "{}", "--keep"], 2, "--keep can be given with --live only"),
        (["view", "{}", "--", "x"], 2, "Arguments of a script"),
        (["view", "{}", "--live", "--text"], 2, "leave out --text"),
        (["view", "{}", "--no-measure", "-o", "."], 1, "is a folder"),
    ],
)
def test_wrong_arguments_are_one_line_with_what_to_do(script, capsys, arguments, code, message):
    filled = [argument.replace("{}", script) for argument in arguments]
    assert main(filled) == code
    err = capsys.readouterr().err.removeprefix("imported\n")
    assert message.replace("{}", script) in err
    assert err.startswith("grain: ")
    assert err.count("\n") == 1


def test_a_script_that_fails_is_named_with_the_line(script, capsys):
    pathlib.Path("bad.py").write_text("import grain\n\n1 / 0\n")
    assert main(["view", "bad.py"]) == 1
    err = capsys.readouterr().err
    assert "bad.py cannot be imported: ZeroDivisionError: division by zero at" in err
    assert "bad.py:3" in err


def test_a_script_that_exits_gets_advice(script, capsys):
    pathlib.Path("exits.py").write_text("import sys\nsys.exit('usage')\n")
    assert main(["view", "exits.py"]) == 1
    assert "__main__" in capsys.readouterr().err


def test_a_script_without_and_with_several_datasets_lists_the_choice(script, capsys):
    pathlib.Path("none.py").write_text("import grain\n")
    assert main(["view", "none.py"]) == 1
    assert "it has no dataset at the top level" in capsys.readouterr().err
    pathlib.Path("two.py").write_text(
        "import grain\na = grain.MapDataset.range(3)\nb = grain.MapDataset.range(4)\n"
    )
    assert main(["view", "two.py"]) == 1
    assert "give one of its datasets: two.py:a, two.py:b." in capsys.readouterr().err


def test_a_loader_and_a_name_of_the_standard_library_are_found(script, capsys):
    pathlib.Path("json.py").write_text(
        "import grain\nloader = grain.load(list(range(6)), num_epochs=1, batch_size=2)\n"
    )
    assert main(["peek", "json.py", "-n", "1"]) == 0
    assert "int64[2]" in capsys.readouterr().out


def test_a_dataset_of_elements_whose_repr_raises_is_shown(script, capsys):
    pathlib.Path("odd.py").write_text(
        "import grain\nclass Odd:\n    def __repr__(self): raise ValueError\n"
        "ds = grain.MapDataset.source([Odd()])\n"
    )
    assert main(["peek", "odd.py"]) == 0
    assert "<Odd: repr raised ValueError>" in capsys.readouterr().out


def test_the_page_is_written_and_named(script, capsys):
    assert main(["view", script, "--no-measure", "-o", "page.html"]) == 0
    assert capsys.readouterr().out == "page.html\n"
    page = pathlib.Path("page.html").read_text(encoding="utf-8")
    assert "batch(2)" in page
    assert "<title>train_script.py · grain</title>" in page


def test_without_output_the_page_is_a_temporary_file_that_is_opened(script, capsys, monkeypatch):
    opened: list[str] = []
    monkeypatch.setattr("webbrowser.open", lambda url: opened.append(url) or True)
    monkeypatch.setenv("DISPLAY", ":0")
    assert main(["view", script, "--no-measure"]) == 0
    path = pathlib.Path(capsys.readouterr().out.strip())
    assert opened == [path.as_uri()]
    assert path.name == "train_script-py.html"
    assert path.stat().st_size > 1000
    path.unlink()
    path.parent.rmdir()


def test_the_page_is_printed_as_text(script, capsys):
    assert main(["view", script, "--text", "--no-measure"]) == 0
    out = capsys.readouterr().out
    assert "●  filter(is_odd)" in out
    assert "first elements:" in out
    assert max(map(len, out.splitlines())) <= 120


def test_saved_statistics_are_shown(script, capsys):
    pathlib.Path("stats.json").write_text(sample_statistics().to_json())
    assert main(["view", "stats.json", "--text"]) == 0
    assert "map(decode)" in capsys.readouterr().out
    assert main(["view", "stats.json", "-o", "page.html"]) == 0
    assert "map(decode)" in pathlib.Path("page.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"nodes": 3}',
        '{"nodes": [{"id": 1}]}',
        '{"nodes": [{"id": 1, "operation": "a", "name": "b", "self_seconds": "x"}], "elements": 1}',
        '{"nodes": [{"id": 1, "operation": "a", "name": "b", "parents": [7]}], "elements": 1}',
        "\x00",
    ],
)
def test_other_json_is_refused_in_one_line(script, capsys, text):
    pathlib.Path("stats.json").write_text(text)
    assert main(["view", "stats.json", "--text"]) == 1
    err = capsys.readouterr().err
    assert err.startswith("grain: stats.json cannot be read: ")
    assert err.count("\n") == 1
    assert main(["view", "missing.json", "--text"]) == 1
    assert main(["view", "stats.json", "--live"]) == 2


def test_the_pipeline_is_measured_with_its_workers(script, capsys):
    assert main(["view", script, "--text", "--seconds", "20"]) == 0
    out = capsys.readouterr().out
    assert "5 elements" in out
    assert "executor processes" in out


def test_the_live_page_is_there_while_the_script_runs_and_its_exit_code_is_kept(script, tmp_path):
    (tmp_path / "gate.py").write_text(
        textwrap.dedent(
            """
            import sys
            import grain
            iterator = iter(grain.MapDataset.range(10).map(lambda x: x).to_iter_dataset())
            next(iterator)
            print("ready", flush=True)
            sys.stdin.readline()
            print(sys.argv[1:], sum(iterator))
            sys.exit(4)
            """
        )
    )
    command = [sys.executable, "-m", "grain", "view", "--live", "gate.py", "-o", "end.html", "--"]
    pipe = subprocess.PIPE
    with subprocess.Popen(
        [*command, "--lr", "1"], cwd=tmp_path, text=True, stdin=pipe, stdout=pipe, stderr=pipe
    ) as process:
        assert process.stdout.readline() == "ready\n"
        url = re.search(r"http://\S+", process.stderr.readline())[0]
        with urllib.request.urlopen(f"{url}data.json", timeout=60) as answer:
            data = json.load(answer)
        assert "figures-1" in data["parts"]
        assert data["ended"] is False
        out, err = process.communicate("\n", timeout=100)
    assert process.returncode == 4
    assert out == "['--lr', '1'] 45\n"
    assert err.startswith("grain: ")
    assert "map(&lt;lambda&gt;)" in (tmp_path / "end.html").read_text(encoding="utf-8")


@pytest.mark.skipif(not hasattr(signal, "SIGINT"), reason="needs signals")
def test_ctrl_c_ends_a_live_page_that_is_kept(script, tmp_path):
    command = [sys.executable, "-m", "grain", "view", "--live", f"{script}:make", "--keep"]
    with subprocess.Popen(
        command, cwd=tmp_path, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        lines: list[str] = []
        while not lines or "Ctrl-C" not in lines[-1]:
            lines.append(process.stderr.readline())
            assert lines[-1], lines
        process.send_signal(signal.SIGINT)
        _, rest = process.communicate(timeout=100)
    assert process.returncode == 130
    assert "Traceback" not in rest


def test_a_live_script_that_fails_keeps_its_traceback(script, tmp_path):
    (tmp_path / "fails.py").write_text("import grain\nraise ValueError('of the script')\n")
    finished = run_grain("view", "--live", "fails.py", folder=tmp_path, env=dict(os.environ))
    assert finished.returncode == 1
    assert "ValueError: of the script" in finished.stderr
    assert "no pipeline was iterated" in finished.stderr
