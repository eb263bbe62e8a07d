"""Opening by URI: the scheme decides, else the suffix, and never the contents."""

from __future__ import annotations

import pathlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grain.plugins import PluginNotInstalledError, PluginUnusableError, UnknownNameError
from grain.plugins.first_party import KNOWN_PLUGINS
from grain.plugins.install_commands import install_command
from grain.plugins.uris import Uri


@pytest.fixture
def manager(site):
    site.add_source("grain-local", schemes=("local",), suffixes=(".loc", ".tar.loc"))
    site.add_source("grain-remote", suffixes=(".rem",), capabilities=frozenset({"remote-paths"}))
    return site.manager()


@pytest.mark.parametrize(
    ("uri", "plugin", "path"),
    [
        ("local:///data/*.x", "local", "/data/*.x"),
        ("local://data/x", "local", "data/x"),
        ("LOCAL://data/x", "local", "data/x"),
        ("local+s3://bucket/key", "local", "s3://bucket/key"),
        ("local://x.rem", "local", "x.rem"),
        ("x.loc", "local", "x.loc"),
        ("/data/part-?.loc", "local", "/data/part-?.loc"),
        ("/data/X.LOC", "local", "/data/X.LOC"),
        ("C:\\data\\x.loc", "local", "C:\\data\\x.loc"),
        ("file:///data/x.loc", "local", "/data/x.loc"),
        ("file://localhost/data/x.loc", "local", "/data/x.loc"),
        ("file:///my%20data/%C3%A4.loc", "local", "/my data/ä.loc"),
        ("file:///my data/100%.loc", "local", "/my data/100%.loc"),
        ("local+file:///my%20data/x", "local", "/my data/x"),
        ("/my%20data/x.loc", "local", "/my%20data/x.loc"),
        ("x.loc-00000-of-00010", "local", "x.loc-00000-of-00010"),
        ("x.loc-*-of-00010", "local", "x.loc-*-of-00010"),
        ("x.loc*", "local", "x.loc*"),
        (pathlib.PurePosixPath("dir.rem/x.loc"), "local", "dir.rem/x.loc"),
        ("s3://bucket/x.rem", "remote", "s3://bucket/x.rem"),
        ("https://host/x.rem?token=1.loc#part", "remote", "https://host/x.rem?token=1.loc#part"),
        ("s3://bucket/part-?.rem", "remote", "s3://bucket/part-?.rem"),
    ],
)
def test_the_plugin_and_the_path_it_gets_follow_from_the_uri(manager, uri, plugin, path) -> None:
    source = manager.open(uri, columns=["a"])
    assert type(source).__module__ == f"grain_{plugin}.source"
    assert source.path == path
    assert source.options == {"columns": ["a"]}


def test_a_path_after_file_is_used_as_written_if_it_exists(manager, tmp_path) -> None:
    path = tmp_path / "my%20file.loc"
    assert manager.open(f"file://{path}").path == str(tmp_path / "my file.loc")
    path.touch()
    assert manager.open(f"file://{path}").path == str(path)


def test_the_longest_suffix_wins() -> None:
    assert Uri.parse("x.tar.loc").suffix([".loc", ".tar.loc"]) == ".tar.loc"
    assert Uri.parse("x.loc").suffix([".loc", ".tar.loc"]) == ".loc"


@pytest.mark.parametrize("uri", ["x", "", "x.unknown", "weird://x", "dir.loc/x", "s3://bucket"])
def test_a_uri_without_a_plugin_is_an_error_that_lists_what_can_be_opened(
    manager, uri: str
) -> None:
    with pytest.raises(UnknownNameError) as raised:
        manager.open(uri)
    for words in (repr(uri), "'local'", "'.loc'", "'.rem'"):
        assert words in str(raised.value)


def test_a_source_for_local_files_says_so_when_given_a_remote_path(manager) -> None:
    with pytest.raises(PluginUnusableError, match=r"grain-local 1\.0.*\.loc.*local paths only"):
        manager.open("s3://bucket/x.loc")


@pytest.mark.parametrize(
    ("uri", "extra"),
    [
        ("parquet:///data/*.parquet", "parquet"),
        ("parquet+s3://bucket/data", "parquet"),
        ("train.parquet", "parquet"),
        ("s3://bucket/train.parquet", "parquet"),
        ("x.array_record", "arrayrecord"),
        ("mnist-train.array_record-00000-of-00001", "arrayrecord"),
        ("tfds://mnist", "tfds"),
    ],
)
def test_a_published_format_that_is_not_installed_says_what_to_install(manager, uri, extra) -> None:
    with pytest.raises(PluginNotInstalledError) as raised:
        manager.open(uri)
    assert repr(uri) in str(raised.value)
    (known,) = (known for known in KNOWN_PLUGINS if known.name == extra)
    assert install_command(known) in str(raised.value)


def test_an_unknown_format_names_plugins_whose_specs_could_not_be_read(site) -> None:
    site.add("grain-lance", hooks="raise RuntimeError('no luck')")
    with pytest.raises(PluginUnusableError, match=r"'x\.lance'.*grain-lance 1\.0.*no luck"):
        site.manager().open("x.lance")


def test_a_target_with_from_uri_gets_the_uri_as_it_was_given(site) -> None:
    site.add_source("grain-whole", schemes=("whole",), suffixes=(".whole",))
    (site.path / "grain_whole" / "source.py").write_text(
        "class Source:\n"
        "    @classmethod\n"
        "    def from_uri(cls, uri, **options):\n"
        "        return uri, options\n"
    )
    manager = site.manager()
    assert manager.open("whole://name", a=1) == ("whole://name", {"a": 1})
    assert manager.open("file:///x.whole") == ("file:///x.whole", {})


def test_an_error_of_the_source_itself_reaches_the_user_unchanged(manager) -> None:
    with pytest.raises(TypeError, match="path"):
        manager.open("x.loc", path="twice")


@pytest.mark.parametrize("wrong", [b"x.loc", 7, None, ["x.loc"]])
def test_only_text_and_paths_can_be_opened(manager, wrong: object) -> None:
    with pytest.raises(TypeError):
        manager.open(wrong)


@settings(deadline=None)
@given(st.text())
def test_any_text_is_read_as_some_uri_and_nothing_is_lost(text: str) -> None:
    uri = Uri.parse(text)
    assert uri.text == text
    assert uri.rest == text if not uri.scheme else text.endswith(f"://{uri.rest}")
    assert uri.suffix([]) == ""
    for _, path in uri.readings():
        assert path.endswith(uri.rest) or uri.scheme.endswith("+file")
