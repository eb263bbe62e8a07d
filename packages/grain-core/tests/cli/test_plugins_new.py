"""`grain plugins new`: a complete package that passes conformance and overwrites nothing."""

from __future__ import annotations

import argparse
import ast
import json
import os
import pathlib
import re
import subprocess
import sys
import tomllib

import pytest

from grain.cli import main
from grain.cli.plugins.new import (
    SHAPES,
    Choices,
    arguments,
    choose,
    class_name,
    plugin_name,
    render,
)

from .distributions import write_metadata

CORE = pathlib.Path(sys.modules["grain.cli"].__file__).parents[2]

each_kind = pytest.mark.parametrize("kind", SHAPES)


def contents(folder: pathlib.Path) -> dict[str, str]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_text() for path in files}


def install(package: pathlib.Path, site: pathlib.Path) -> None:
    """Install a package into a directory without building it."""
    project = tomllib.loads((package / "pyproject.toml").read_text())["project"]
    [module] = project["entry-points"]["grain.plugins"].values()
    write_metadata(site, project["name"], module, project["dependencies"])


@each_kind
def test_a_new_plugin_is_found_and_passes_conformance_unchanged(tmp_path, kind):
    assert main(["plugins", "new", "two-words", "--kind", kind, "--directory", str(tmp_path)]) == 0
    package, site = tmp_path / "grain-two-words", tmp_path / "site"
    install(package, site)
    report = tmp_path / "report.json"
    done = subprocess.run(
        [sys.executable, "-m", "grain", "conformance", "two-words", "--json", str(report)],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={
            "PATH": os.environ["PATH"],
            "PYTHONPATH": os.pathsep.join(map(str, (package / "src", site, CORE))),
        },
    )
    assert done.returncode == 0, done.stdout + done.stderr
    described, case = json.loads(report.read_text())["cases"]
    assert described["ok"]
    assert case["kind"] == {"source": "map-source"}.get(kind, kind)
    assert {"passed"} <= {each["outcome"] for each in case["results"]} <= {"passed", "skipped"}


@each_kind
def test_every_file_is_complete_and_every_module_is_python(kind):
    files = render("two-words", kind)
    assert {
        "pyproject.toml",
        "README.md",
        "CHANGELOG.md",
        "LICENSE",
        "RELEASING.md",
        "noxfile.py",
        ".github/workflows/test.yml",
        "src/grain_two_words/__init__.py",
        "src/grain_two_words/_plugin.py",
        "src/grain_two_words/conformance.py",
        "src/grain_two_words/py.typed",
        "src/grain_two_words/version.py",
        f"src/grain_two_words/{SHAPES[kind].file}.py",
        "tests/test_conformance.py",
    } <= set(files)
    for path, text in files.items():
        assert not re.search(r"@[A-Z-]+@", text), path
        if path.endswith(".py"):
            assert ast.get_docstring(ast.parse(text, path)), path


@each_kind
def test_the_project_file_names_the_entry_point_the_core_and_lower_bounds(kind):
    project = tomllib.loads(render("two-words", kind)["pyproject.toml"])["project"]
    assert project["name"] == "grain-two-words"
    assert project["entry-points"]["grain.plugins"] == {"two-words": "grain_two_words._plugin"}
    assert "grain-core>=1,<2" in project["dependencies"]
    assert all(">=" in line for line in project["dependencies"])


def options(*given: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    arguments(parser)
    return parser.parse_args(["mine", *given])


def test_class_suffix_scheme_summary_license_author_and_url_can_be_chosen():
    given = options(
        *("--kind", "source", "--class", "Tables", "--suffix", ".tbl", "--scheme", "tables"),
        *("--license", "MIT", "--author", "Ada L <ada@example.org>"),
        *("--url", "https://example.org/m", "--summary", "Rows of tables."),
    )
    files = render("mine", "source", choose("mine", given, interactive=False))
    project = tomllib.loads(files["pyproject.toml"])["project"]
    assert project["license"] == "MIT"
    assert project["authors"] == [{"name": "Ada L", "email": "ada@example.org"}]
    assert project["urls"]["Homepage"] == "https://example.org/m"
    assert "Ada L" in files["LICENSE"]
    assert "class Tables:" in files["src/grain_mine/source.py"]
    plugin = files["src/grain_mine/_plugin.py"]
    assert 'schemes=("tables",)' in plugin
    assert 'summary="Rows of tables."' in plugin
    assert project["description"] == "Rows of tables."
    assert 'suffixes=(".tbl",)' in plugin


def test_options_that_are_not_given_are_asked_for_in_a_terminal(monkeypatch):
    answers = iter(["Tables", ".tbl", "", "", "BSD-3-Clause", "", ""])
    asked = []

    def answer(question: str) -> str:
        asked.append(question)
        return next(answers)

    monkeypatch.setattr("builtins.input", answer)
    chosen = choose("mine", options("--kind", "source"), interactive=True)
    assert (chosen.class_name, chosen.suffix, chosen.scheme) == ("Tables", ".tbl", "mine")
    assert chosen.license == "BSD-3-Clause"
    assert "[MineDataSource]" in asked[0]
    assert len(asked) == 7


def test_a_package_without_a_license_names_none():
    files = render("mine", "transform", Choices(license="none"))
    assert "LICENSE" not in files
    assert "license" not in tomllib.loads(files["pyproject.toml"])["project"]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (("--class", "tables"), "--class got 'tables'"),
        (("--class", "RangeDataSource"), "is a name of grain itself"),
        (("--suffix", "tbl"), "--suffix got 'tbl'"),
        (("--scheme", "My"), "--scheme got 'My'"),
        (("--summary", "Rows of tables"), "expected a sentence"),
        (("--author", "a\\b"), "a name without backslashes"),
        (("--url", "example.org"), "--url got 'example.org'"),
    ],
)
def test_an_invalid_choice_is_refused_and_nothing_is_written(tmp_path, capsys, given, message):
    where = ["--directory", str(tmp_path)]
    assert main(["plugins", "new", "mine", "--kind", "source", *given, *where]) == 1
    assert message in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("author", "expected"),
    [
        ('Ann O"Neil <a@b.c>', {"name": 'Ann O"Neil', "email": "a@b.c"}),
        ("Ann O'Neil", {"name": "Ann O'Neil"}),
    ],
)
def test_quotes_in_the_name_of_an_author_are_kept(author, expected):
    choices = choose("mine", options("--kind", "source", "--author", author), interactive=False)
    files = render("mine", "source", choices)
    assert tomllib.loads(files["pyproject.toml"])["project"]["authors"] == [expected]


def test_a_slash_at_the_end_of_the_address_is_not_doubled():
    choices = choose(
        "mine", options("--kind", "source", "--url", "https://example.org/m/"), interactive=False
    )
    urls = tomllib.loads(render("mine", "source", choices)["pyproject.toml"])["project"]["urls"]
    assert urls["Changelog"] == "https://example.org/m/blob/main/CHANGELOG.md"


@pytest.mark.parametrize(
    ("option", "value", "provider"),
    [
        ("--suffix", ".parquet", "grain-parquet"),
        ("--scheme", "tfds", "grain-tfds"),
        ("--class", "ArrayRecordDataSource", "grain-arrayrecord"),
    ],
)
def test_a_name_of_another_plugin_is_accepted_with_a_warning(
    tmp_path, capsys, option, value, provider
):
    where = ["--directory", str(tmp_path)]
    command = ["plugins", "new", "mine", "--kind", "source", *where]
    assert main([*command, option, value]) == 0
    [warning] = capsys.readouterr().err.strip().splitlines()
    assert warning.startswith(f"warning: the {option[2:]} {value!r} belongs to {provider}")
    assert f"choose another with {option}." in warning


def test_own_names_cause_no_warning(tmp_path, capsys):
    where = ["--directory", str(tmp_path)]
    assert main(["plugins", "new", "mine", "--kind", "source", *where]) == 0
    assert capsys.readouterr().err == ""


def test_a_transform_has_no_suffix(tmp_path, capsys):
    where = ["--directory", str(tmp_path)]
    assert main(["plugins", "new", "mine", "--kind", "transform", "--suffix", ".a", *where]) == 1
    assert "leave out --suffix" in capsys.readouterr().err


@each_kind
def test_no_line_is_longer_than_its_own_linter_allows(kind):
    files = render("two-words", kind)
    allowed = tomllib.loads(files["pyproject.toml"])["tool"]["ruff"]["line-length"]
    lines = [(path, line) for path in files for line in files[path].splitlines()]
    assert not [each for each in lines if each[0].endswith(".py") and len(each[1]) > allowed]


def test_existing_files_are_never_overwritten(tmp_path, capsys):
    arguments = ["plugins", "new", "mine", "--kind", "source", "--directory", str(tmp_path)]
    assert main(arguments) == 0
    (tmp_path / "grain-mine/README.md").write_text("my words\n")
    before = contents(tmp_path)
    assert main([*arguments[:-3], "transform", *arguments[-2:]]) == 1
    assert contents(tmp_path) == before
    assert "exists and was not changed" in capsys.readouterr().err


def test_a_file_with_the_name_of_the_folder_is_not_changed(tmp_path, capsys):
    (tmp_path / "grain-mine").write_text("a file")
    assert main(["plugins", "new", "mine", "--kind", "source", "--directory", str(tmp_path)]) == 1
    assert contents(tmp_path) == {"grain-mine": "a file"}
    assert "exists and was not changed" in capsys.readouterr().err


def test_an_empty_folder_is_used_and_a_missing_directory_is_created(tmp_path):
    (tmp_path / "a/grain-mine").mkdir(parents=True)
    for directory in ("a", "b/c"):
        where = str(tmp_path / directory)
        assert main(["plugins", "new", "mine", "--kind", "source", "--directory", where]) == 0
    assert contents(tmp_path / "a") == contents(tmp_path / "b/c")


def test_a_directory_that_cannot_be_created_is_an_error_in_one_line(tmp_path, capsys):
    (tmp_path / "file").write_text("")
    where = str(tmp_path / "file")
    assert main(["plugins", "new", "mine", "--kind", "source", "--directory", where]) == 1
    assert "cannot be written" in capsys.readouterr().err


def test_the_folder_is_created_in_the_working_directory_and_next_steps_are_printed(
    tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    assert main(["plugins", "new", "grain-mine", "--kind", "transform"]) == 0
    assert (tmp_path / "grain-mine/src/grain_mine/transform.py").is_file()
    out = capsys.readouterr().out
    assert "pip install -e grain-mine" in out
    assert "grain conformance mine" in out


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("", "is not a valid plugin name"),
        ("grain-", "is not a valid plugin name"),
        ("My_Format", "Use 'my-format'"),
        ("my--format", "Use 'my-format'"),
        ("a.b", "Use 'a-b'"),
        ("3d", "starting with a letter"),
        ("../up", "Use 'up'"),
        ("mine\n", "Use 'mine'"),
        ("größe", "is not a valid plugin name"),
        ("a" * 41, "has 41 characters"),
        ("core", "grain-core is a package of grain itself"),
        ("grain-parquet", "grain-parquet is a package of grain itself"),
    ],
)
def test_an_invalid_name_is_refused_with_the_reason(tmp_path, capsys, given, message):
    assert main(["plugins", "new", given, "--kind", "source", "--directory", str(tmp_path)]) == 1
    assert message in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("name", "kind"), [("filter", "transform"), ("range", "source")])
def test_a_name_whose_class_exists_in_the_core_is_refused(tmp_path, capsys, name, kind):
    assert main(["plugins", "new", name, "--kind", kind, "--directory", str(tmp_path)]) == 1
    assert class_name("mine", kind) == {"transform": "Mine", "source": "MineDataSource"}[kind]
    assert "which is a name of grain itself" in capsys.readouterr().err


def test_a_name_of_the_maximum_length_is_accepted():
    assert plugin_name("a" * 40) == "a" * 40


def test_an_unknown_kind_exits_with_2(capsys):
    with pytest.raises(SystemExit) as caught:
        main(["plugins", "new", "mine", "--kind", "executor"])
    assert caught.value.code == 2
    assert "iter-source" in capsys.readouterr().err
