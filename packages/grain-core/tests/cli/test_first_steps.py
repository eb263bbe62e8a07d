"""First steps with the commands: files of other formats, unknown options, downloads, and odd names."""

from __future__ import annotations

from typing import Any

import pytest

from grain.cli import main
from grain.plugins import default_manager
from grain.plugins.format_pointers import pointer_for


@pytest.mark.parametrize(
    ("name", "pointer"),
    [
        ("a.tfrecord", "TFRecordIterDataset"),
        ("a.CSV", "pandas.read_csv"),
        ("a.pq", "parquet://"),
        ("a.npz", "dict(numpy.load(path))"),
        ("photo.JPG", "image_folder.py"),
        ("a.tar", "images_from_tar.py"),
    ],
)
def test_a_file_of_a_format_without_a_plugin_gets_a_pointer(name, pointer, tmp_path, capsys):
    path = tmp_path / name
    path.touch()
    assert main(["peek", str(path)]) == 1
    assert pointer in capsys.readouterr().err


def test_a_folder_of_images_gets_a_pointer_and_others_do_not(tmp_path, capsys):
    assert pointer_for(str(tmp_path)) == ""
    (tmp_path / "cat").mkdir()
    (tmp_path / "cat" / "1.png").touch()
    assert main(["peek", str(tmp_path)]) == 1
    said = capsys.readouterr().err
    assert "is a directory" in said
    assert "image_folder.py" in said
    assert ".parquet" not in said


def test_a_pipeline_where_data_is_expected_gets_a_pointer(tmp_path, capsys):
    assert main(["bench", f"{tmp_path / 'train.py'}:ds"]) == 1
    said = capsys.readouterr().err
    assert "`grain view`" in said
    assert "`grain peek`" in said


@pytest.mark.parametrize(
    ("name", "advice"),
    [("out.pq", "write `parquet://` before an absolute path"), ("out.nope", "cannot be written")],
)
def test_a_file_that_no_plugin_writes_gets_advice(lines, folder, capsys, name, advice):
    (folder / "rows.lines").write_text("a\n")
    assert main(["convert", "rows.lines", name]) == 1
    assert advice in capsys.readouterr().err


def test_errors_about_arguments_contain_no_terminal_control_sequences(capsys):
    with pytest.raises(SystemExit):
        main(["peek", "x", "--nope\x1b[31m"])
    said = capsys.readouterr().err
    assert "\x1b" not in said
    assert "--nope\\x1b[31m" in said


def test_an_unknown_option_is_answered_with_the_options(lines, folder, capsys):
    (folder / "rows.lines").write_text("a\n")
    assert main(["peek", "rows.lines", "-o", "foo=1"]) == 2
    said = capsys.readouterr().err
    assert "has no option 'foo'; it has" in said
    assert "__init__" not in said
    assert main(["convert", "rows.lines", "out.lines", "-w", "foo=1"]) == 2
    assert "has no option 'foo'; it has -w until=..." in capsys.readouterr().err
    assert not (folder / "out.lines").exists()


class Prepared:
    """A source that downloads by default, like that of TFDS."""

    downloads: list[bool]

    def __init__(self, path: str, download: bool = True) -> None:
        self.downloads.append(download)
        if not download:
            raise FileNotFoundError(2, "not prepared", path)

    def __len__(self) -> int:
        return 0

    def __getitem__(self, index: int) -> Any:
        raise IndexError(index)


def test_looking_at_data_downloads_nothing_unless_asked_to(monkeypatch, capsys):
    Prepared.downloads = []
    manager = default_manager()

    class Spec:
        target = f"{Prepared.__module__}:Prepared"

    monkeypatch.setattr("grain.cli.source_reader.load_object", lambda target: Prepared)
    monkeypatch.setattr(manager, "source_spec", lambda uri: Spec)
    monkeypatch.setattr(manager, "open", lambda uri, **options: Prepared(uri, **options))
    monkeypatch.setattr(manager, "decoder", lambda uri: None)
    assert main(["peek", "tfds://mnist"]) == 1
    assert "`-o download=true` downloads it" in capsys.readouterr().err
    assert main(["peek", "tfds://mnist", "-o", "download=true"]) == 0
    assert Prepared.downloads == [False, True]


def test_conformance_without_a_name_is_a_wrong_argument(capsys):
    assert main(["conformance"]) == 2
    assert "needs the NAME" in capsys.readouterr().err


def test_control_sequences_in_names_are_escaped(capsys):
    assert main(["peek", "x\x1b[31m.unknown"]) == 1
    said = capsys.readouterr().err
    assert "\x1b" not in said
    assert r"x\x1b[31m.unknown" in said
