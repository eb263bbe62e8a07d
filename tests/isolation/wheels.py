"""Wheels made without a build tool, from files or from a package of this repository."""

from __future__ import annotations

import base64
import hashlib
import re
import tomllib
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = ROOT / "packages"


def write_wheel(
    directory: Path,
    name: str,
    version: str,
    files: Mapping[str, bytes],
    *,
    requires: Sequence[str] = (),
    entry_points: Mapping[str, Mapping[str, str]] | None = None,
) -> Path:
    """Write a pure Python wheel; the keys of `files` are paths inside it."""
    folded = re.sub(r"[-_.]+", "_", name)
    info = f"{folded}-{version}.dist-info"
    metadata = [f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}"]
    metadata += [f"Requires-Dist: {requirement}" for requirement in requires]
    points = [
        f"[{group}]\n" + "".join(f"{key} = {value}\n" for key, value in entries.items())
        for group, entries in (entry_points or {}).items()
    ]
    contents = {
        **files,
        f"{info}/METADATA": "\n".join([*metadata, "", ""]).encode(),
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/entry_points.txt": "\n".join(points).encode(),
    }
    record = [
        f"{path},sha256={_digest(content)},{len(content)}" for path, content in contents.items()
    ]
    contents[f"{info}/RECORD"] = "\n".join([*record, f"{info}/RECORD,,", ""]).encode()
    directory.mkdir(parents=True, exist_ok=True)
    wheel = directory / f"{folded}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for path, content in contents.items():
            archive.writestr(path, content)
    return wheel


def wheel_of_package(directory: Path, name: str) -> Path:
    """Write a wheel of a package of this repository."""
    project = tomllib.loads((PACKAGES / name / "pyproject.toml").read_text())["project"]
    source = PACKAGES / name / "src"
    files = {
        path.relative_to(source).as_posix(): path.read_bytes()
        for path in sorted(source.rglob("*"))
        if path.is_file() and "__pycache__" not in path.parts
    }
    (version_file,) = source.glob("*/version.py")
    version = re.search(r'__version__ = "(.+)"', version_file.read_text())
    assert version is not None
    points = dict(project.get("entry-points", {}))
    if "scripts" in project:
        points["console_scripts"] = project["scripts"]
    return write_wheel(
        directory,
        name,
        version[1],
        files,
        requires=project.get("dependencies", ()),
        entry_points=points,
    )


def _digest(content: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
