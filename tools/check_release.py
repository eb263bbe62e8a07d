"""Check that all versions of a release agree: files, changelogs, built packages, a tag.

Usage: python tools/check_release.py [TAG] [--dist FOLDER]

A tag is a package's name and version, `grain-core-1.0.0`; it is correct if the package has that version and
its changelog has the date of the release. With --dist, the wheels and sdists in that folder are checked.
"""

from __future__ import annotations

import argparse
import datetime as dt
import email
import pathlib
import re
import sys
import tarfile
import tomllib
import zipfile

ROOT = pathlib.Path(__file__).parent.parent
UNRELEASED = "unreleased"


def packages(root: pathlib.Path) -> list[str]:
    """Return all packages of the checkout that have a version of this project."""
    found = {file.parent.name for file in root.glob("packages/*/pyproject.toml")}
    return sorted(
        found - {"grain"}
    )  # Has the version of another project's release, and no modules.


def module_of(name: str) -> str:
    """Return the import name of a distribution; the core's is `grain`."""
    return "grain" if name == "grain-core" else name.replace("-", "_")


def version_of(root: pathlib.Path, name: str) -> str:
    """Return the version in the package's version.py, or an empty text."""
    file = root / "packages" / name / "src" / module_of(name) / "version.py"
    match = re.search(r'^__version__ = "(.+)"$', file.read_text(), re.MULTILINE)
    return match[1] if match else ""


def latest_entry(root: pathlib.Path, name: str) -> tuple[str, str]:
    """Return the first heading of a changelog: version, and date or `unreleased`."""
    text = (root / "packages" / name / "CHANGELOG.md").read_text()
    match = re.search(r"^## (\S+) \((.+)\)$", text, re.MULTILINE)
    return (match[1], match[2]) if match else ("", "")


def package_faults(root: pathlib.Path, name: str) -> list[str]:
    """Return the problems in the files of one package."""
    found = []
    version = version_of(root, name)
    if not re.fullmatch(r"\d+\.\d+\.\d+((a|b|rc)\d+)?", version):
        found.append(f"version.py has {version!r}, expected three numbers such as 1.0.0")
    project = tomllib.loads((root / "packages" / name / "pyproject.toml").read_text())
    path = f"src/{module_of(name)}/version.py"
    if project["project"].get("version") or "version" not in project["project"].get("dynamic", ()):
        found.append(f"pyproject.toml has a version; it belongs only in {path}")
    if project["tool"]["hatch"]["version"].get("path") != path:
        found.append(f"pyproject.toml does not take the version from {path}")
    logged, date = latest_entry(root, name)
    if logged != version:
        found.append(f"CHANGELOG.md starts with {logged!r}, version.py has {version!r}")
    if date != UNRELEASED and not is_date(date):
        found.append(f"CHANGELOG.md has {date!r}, expected a date such as 2026-01-31")
    return found


def is_date(text: str) -> bool:
    """Return whether a text is a date in ISO form."""
    try:
        return bool(dt.date.fromisoformat(text))
    except ValueError:
        return False


def tag_faults(root: pathlib.Path, tag: str) -> list[str]:
    """Return the problems of a tag."""
    known = packages(root)
    # The longest first, since a name may be a prefix of another.
    matches = [name for name in sorted(known, key=len, reverse=True) if tag.startswith(f"{name}-")]
    if not matches:
        example = f"{known[0]}-{version_of(root, known[0])}"
        return [f"tag {tag} names no package of {', '.join(known)}; expected one like {example}"]
    name = matches[0]
    tagged = tag.removeprefix(f"{name}-")
    found = []
    if tagged != version_of(root, name):
        found.append(f"tag {tag} says {tagged}, {name} has version {version_of(root, name)}")
    if latest_entry(root, name)[1] == UNRELEASED:
        found.append(f"tag {tag}: the changelog of {name} still says {UNRELEASED}; write the date")
    return found


def built_faults(root: pathlib.Path, dist: pathlib.Path) -> list[str]:
    """Return the problems of a folder of wheels and sdists."""
    found = []
    expected = {}
    for name in packages(root):
        stem = f"{name.replace('-', '_')}-{version_of(root, name)}"
        expected[f"{stem}-py3-none-any.whl"] = name
        expected[f"{stem}.tar.gz"] = name
    existing = {file.name for file in dist.iterdir()}
    found += [f"{name} was not built" for name in sorted(set(expected) - existing)]
    found += [f"{name} is not of this checkout" for name in sorted(existing - set(expected))]
    for file in sorted(existing & set(expected)):
        opened = wheel_faults if file.endswith(".whl") else sdist_faults
        problems = opened(dist / file, root, expected[file])
        found += [f"{file} {problem}" for problem in problems]
    return found


def metadata_faults(text: str, root: pathlib.Path, name: str) -> list[str]:
    """Return the problems of the metadata of a built package."""
    found = []
    metadata = email.message_from_string(text)
    for field, expected in {"Name": name, "Version": version_of(root, name)}.items():
        if metadata[field] != expected:
            found.append(f"has {field}: {metadata[field]}, expected {expected}")
    missing = [f for f in ("Summary", "License-Expression", "Requires-Python") if not metadata[f]]
    if missing:
        found.append(f"has no {', '.join(missing)}")
    return found


def wheel_faults(file: pathlib.Path, root: pathlib.Path, name: str) -> list[str]:
    """Check that a wheel has one module with its types, a licence, and no developer files."""
    with zipfile.ZipFile(file) as wheel:
        names = wheel.namelist()
        info = next(n for n in names if n.endswith(".dist-info/METADATA"))
        found = metadata_faults(wheel.read(info).decode(), root, name)
    info = info.removesuffix("/METADATA")
    tops = {n.split("/")[0] for n in names} - {info}
    if tops != {module_of(name)}:
        found.append(f"holds {', '.join(sorted(tops))}, expected {module_of(name)} alone")
    for needed in (f"{module_of(name)}/py.typed", f"{info}/licenses/LICENSE"):
        if needed not in names:
            found.append(f"lacks {needed}")
    return found + compiled(names)


def sdist_faults(file: pathlib.Path, root: pathlib.Path, name: str) -> list[str]:
    """Check that an sdist has the sources of the wheel, and its documents."""
    stem = file.name.removesuffix(".tar.gz")
    with tarfile.open(file) as archive:
        names = archive.getnames()
        member = archive.extractfile(f"{stem}/PKG-INFO")
        found = metadata_faults(member.read().decode() if member else "", root, name)
    wanted = ["pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md"]
    wanted.append(f"src/{module_of(name)}/version.py")
    found += [f"lacks {path}" for path in wanted if f"{stem}/{path}" not in names]
    return found + compiled(names)


def compiled(names: list[str]) -> list[str]:
    """Return a problem if there are compiled files."""
    strays = [n for n in names if n.endswith(".pyc") or "__pycache__" in n]
    return [f"holds {len(strays)} compiled files"] if strays else []


def faults(root: pathlib.Path, tag: str | None, dist: pathlib.Path | None) -> list[str]:
    """Return all problems."""
    found = [f"{name}: {text}" for name in packages(root) for text in package_faults(root, name)]
    if tag is not None:
        found += tag_faults(root, tag)
    if dist is not None:
        found += built_faults(root, dist)
    return found


def main(command_line: list[str]) -> int:
    """Print the problems; return 1 if there are any."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("tag", nargs="?", help="such as grain-core-1.0.0")
    parser.add_argument("--dist", type=pathlib.Path, help="a folder of wheels and sdists")
    arguments = parser.parse_args(command_line)
    problems = faults(ROOT, arguments.tag, arguments.dist)
    for problem in problems:
        print(problem)
    if not problems:
        print(", ".join(f"{name} {version_of(ROOT, name)}" for name in packages(ROOT)) + ": ok")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
