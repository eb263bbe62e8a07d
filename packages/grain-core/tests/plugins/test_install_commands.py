"""Commands of hints work from where the core was installed."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from grain.plugins.first_party import KNOWN_PLUGINS
from grain.plugins.install_commands import (
    install_command,
    install_hint,
    package_beside_core,
    repair_hint,
    upgrade_command,
)
from grain.plugins.metadata import InfoDirectory

PARQUET = next(known for known in KNOWN_PLUGINS if known.name == "parquet")
Record = Callable[..., list[InfoDirectory]]


@pytest.fixture
def record(tmp_path: Path) -> Record:
    """Return a function that records where the core was installed from, and by what."""
    info = tmp_path / "grain_core-1.0.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Name: grain-core\nVersion: 1.0.0\n")

    def write(origin: object = None, installer: str = "pip") -> list[InfoDirectory]:
        (info / "INSTALLER").write_text(f"{installer}\n")
        if origin is not None:
            text = origin if isinstance(origin, str) else json.dumps(origin)
            (info / "direct_url.json").write_text(text)
        return [InfoDirectory(str(info))]

    return write


@pytest.fixture
def packages(tmp_path: Path) -> Path:
    """Return a folder of packages, as in a checkout."""
    folder = tmp_path / "my packages"
    for name in ("grain-core", "grain-parquet"):
        (folder / name).mkdir(parents=True)
        (folder / name / "pyproject.toml").touch()
    return folder


def test_a_core_from_a_checkout_names_the_plugins_beside_it(record, packages) -> None:
    here = record({"url": (packages / "grain-core").as_uri(), "dir_info": {"editable": True}})
    assert package_beside_core("grain-parquet", here) == str(packages / "grain-parquet")
    assert package_beside_core("grain-tfds", here) is None
    assert install_command(PARQUET, here) == f'pip install "{packages / "grain-parquet"}"'
    assert install_hint(PARQUET, here) == install_command(PARQUET, here)
    assert upgrade_command("grain-parquet", "other", distributions=here) == (
        f'pip install --upgrade "{packages / "grain-parquet"}" other'
    )


def test_a_core_from_a_folder_of_wheels_names_the_latest_wheel_there(record, tmp_path) -> None:
    for version in ("1.0.0", "1.1.0"):
        (tmp_path / f"grain_parquet-{version}-py3-none-any.whl").touch()
    wheel = tmp_path / "grain_core-1.0.0-py3-none-any.whl"
    here = record({"url": wheel.as_uri(), "archive_info": {}})
    latest = tmp_path / "grain_parquet-1.1.0-py3-none-any.whl"
    assert install_hint(PARQUET, here) == f'pip install "{latest}"'


def test_a_core_from_a_repository_names_the_plugin_there(record) -> None:
    origin = {
        "url": "https://git.example/grain.git",
        "vcs_info": {"vcs": "git", "requested_revision": "v1", "commit_id": "abc"},
        "subdirectory": "packages/grain-core",
    }
    here = record(origin)
    place = "git+https://git.example/grain.git@v1#subdirectory=packages/grain-parquet"
    assert install_hint(PARQUET, here) == f'pip install "grain-parquet @ {place}"'
    assert upgrade_command("other", distributions=here) == "pip install --upgrade other"
    del origin["vcs_info"]["requested_revision"]
    assert "@abc#subdirectory" in install_hint(PARQUET, record(origin))


@pytest.mark.parametrize(
    "origin",
    [
        None,
        "[",
        "[]",
        {},
        {"url": 3},
        {"url": "https://a.example/grain-core", "dir_info": {}},
        {"url": "file:///nowhere/grain_core-1.0.0-py3-none-any.whl", "archive_info": {}},
        {"url": "https://a.example/grain.git", "vcs_info": {"vcs": "git"}},
    ],
)
def test_otherwise_the_other_grain_core_is_excluded_and_the_options_are_named(
    record, origin
) -> None:
    hint = install_hint(PARQUET, record(origin))
    command = 'pip install "grain-core[parquet]>=1,<2"'
    assert hint == f"{command} (with the options that installed grain-core, such as --find-links)"


def test_environments_of_uv_have_commands_of_uv(record, packages) -> None:
    here = record({"url": (packages / "grain-core").as_uri(), "dir_info": {}}, installer="uv")
    assert install_command(PARQUET, here).startswith("uv pip install ")
    assert upgrade_command("other", distributions=here) == "uv pip install --upgrade other"


def test_a_published_plugin_is_repaired_from_where_the_core_came_from(record, packages) -> None:
    here = record({"url": (packages / "grain-core").as_uri(), "dir_info": {}}, installer="uv")
    given = 'pip install "x"'
    command = repair_hint("grain-parquet", given, here)
    assert command == install_command(PARQUET, here) != given
    assert repair_hint("other", given, here) == given
    assert repair_hint("other", "", here) == "uv pip install --upgrade other"
    assert repair_hint("", "", here) == ""


def test_without_metadata_of_the_core_the_command_is_that_of_pip() -> None:
    assert install_hint(PARQUET, []) == 'pip install "grain-core[parquet]>=1,<2"'
    assert package_beside_core("grain-parquet", []) is None
