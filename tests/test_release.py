"""The release check detects versions that disagree in files, changelogs, built packages and tags."""

from __future__ import annotations

import importlib.util
import io
import pathlib
import tarfile
import zipfile

import pytest

ROOT = pathlib.Path(__file__).parent.parent
_spec = importlib.util.spec_from_file_location("check_release", ROOT / "tools/check_release.py")
check_release = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(check_release)

METADATA = """\
Metadata-Version: 2.4
Name: grain-core
Version: 1.2.0
Summary: A core.
License-Expression: Apache-2.0
Requires-Python: >=3.11
"""
WHEEL = "grain_core-1.2.0-py3-none-any.whl"
SDIST = "grain_core-1.2.0.tar.gz"


@pytest.fixture
def checkout(tmp_path):
    """A checkout of one package whose version is 1.2.0 everywhere."""
    package = tmp_path / "packages/grain-core"
    (package / "src/grain").mkdir(parents=True)
    (package / "src/grain/version.py").write_text('__version__ = "1.2.0"\n')
    (package / "CHANGELOG.md").write_text(
        "# Changes\n\n## 1.2.0 (2026-01-31)\n\n## 1.1.0 (2025-12-31)\n"
    )
    (package / "pyproject.toml").write_text(
        '[project]\nname = "grain-core"\ndynamic = ["version"]\n'
        '[tool.hatch.version]\npath = "src/grain/version.py"\n'
    )
    return tmp_path


@pytest.fixture
def dist(tmp_path):
    """The wheel and the sdist of that checkout."""
    folder = tmp_path / "dist"
    folder.mkdir()
    write_wheel(folder)
    write_sdist(folder)
    return folder


def write_wheel(folder, metadata=METADATA, without="", more=()):
    info = "grain_core-1.2.0.dist-info"
    files = {f"{info}/METADATA": metadata, f"{info}/licenses/LICENSE": "", "grain/py.typed": ""}
    with zipfile.ZipFile(folder / WHEEL, "w") as wheel:
        for name in [*files, *more]:
            if name != without:
                wheel.writestr(name, files.get(name, ""))


def write_sdist(folder, without=""):
    names = ["pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md", "src/grain/version.py"]
    with tarfile.open(folder / SDIST, "w:gz") as archive:
        for name in ["PKG-INFO", *names]:
            if name != without:
                text = METADATA.encode() if name == "PKG-INFO" else b""
                member = tarfile.TarInfo(f"grain_core-1.2.0/{name}")
                member.size = len(text)
                archive.addfile(member, io.BytesIO(text))


def test_this_checkout_agrees_with_itself():
    assert check_release.faults(ROOT, None, None) == []


def test_versions_that_agree_are_accepted(checkout, dist):
    assert check_release.faults(checkout, "grain-core-1.2.0", dist) == []


DISAGREEMENTS = {
    "src/grain/version.py": [
        ('"1.2.0"', '"1.3.0"', "CHANGELOG.md starts with '1.2.0', version.py has '1.3.0'"),
        ('"1.2.0"', '"1.2"', "version.py has '1.2', expected three numbers"),
        ("__version__", "version", "version.py has ''"),
    ],
    "CHANGELOG.md": [
        ("2026-01-31", "soon", "has 'soon', expected a date"),
        ("## 1.2.0", "## Next", "starts with 'Next'"),
    ],
    "pyproject.toml": [
        ('dynamic = ["version"]', 'version = "1.2.0"', "has a version; it belongs only in"),
        ("src/grain/version.py", "src/grain/__init__.py", "does not take the version from"),
    ],
}


@pytest.mark.parametrize(
    ("file", "old", "new", "fault"),
    [(file, *change) for file, changes in DISAGREEMENTS.items() for change in changes],
)
def test_a_disagreement_between_files_is_a_fault(checkout, file, old, new, fault):
    path = checkout / "packages/grain-core" / file
    path.write_text(path.read_text().replace(old, new, 1))
    assert fault in "\n".join(check_release.faults(checkout, None, None))


@pytest.mark.parametrize(
    ("tag", "fault"),
    [
        ("grain-core-1.2.1", "says 1.2.1, grain-core has version 1.2.0"),
        ("v1.2.0", "names no package of grain-core; expected one like grain-core-1.2.0"),
        ("grain-parquet-1.2.0", "names no package"),
    ],
)
def test_a_tag_that_does_not_match_is_a_fault(checkout, tag, fault):
    assert fault in "\n".join(check_release.faults(checkout, tag, None))


def test_a_tag_needs_a_date_in_the_changelog(checkout):
    log = checkout / "packages/grain-core/CHANGELOG.md"
    log.write_text(log.read_text().replace("2026-01-31", "unreleased"))
    assert check_release.faults(checkout, None, None) == []
    [fault] = check_release.faults(checkout, "grain-core-1.2.0", None)
    assert "still says unreleased; write the date" in fault


def test_a_missing_or_unknown_file_is_a_fault(checkout, dist):
    (dist / SDIST).rename(dist / "grain_core-1.1.0.tar.gz")
    assert check_release.built_faults(checkout, dist) == [
        f"{SDIST} was not built",
        "grain_core-1.1.0.tar.gz is not of this checkout",
    ]


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"metadata": METADATA.replace("1.2.0", "1.1.0")}, "has Version: 1.1.0, expected 1.2.0"),
        ({"metadata": METADATA.replace("Summary", "Tale")}, "has no Summary"),
        ({"without": "grain/py.typed", "more": ["grain/x.py"]}, "lacks grain/py.typed"),
        ({"more": ["tests/x.py"]}, "holds grain, tests, expected grain alone"),
        ({"more": ["grain/__pycache__/x.pyc"]}, "holds 1 compiled files"),
    ],
    ids=["version", "summary", "types", "tests", "compiled"],
)
def test_a_wheel_with_a_fault_is_detected(checkout, dist, change, fault):
    write_wheel(dist, **change)
    assert check_release.built_faults(checkout, dist) == [f"{WHEEL} {fault}"]


def test_an_sdist_without_its_licence_is_detected(checkout, dist):
    write_sdist(dist, without="LICENSE")
    assert check_release.built_faults(checkout, dist) == [f"{SDIST} lacks LICENSE"]


def test_the_exit_code_reports_faults(capsys):
    assert check_release.main([]) == 0
    assert "grain-core " in capsys.readouterr().out
    assert check_release.main(["nonsense-1.0.0"]) == 1
    assert "names no package" in capsys.readouterr().out
