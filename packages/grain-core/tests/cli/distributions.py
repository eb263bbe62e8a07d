"""Metadata of installed plugins, written without an installer."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path


def write_metadata(
    site: Path, distribution: str, module: str, requires: Iterable[str] = ("grain-core>=1,<2",)
) -> None:
    """Write the metadata of a plugin's distribution, whose entry point is a module."""
    package = distribution.replace("-", "_")
    info = site / f"{package}-1.0.dist-info"
    info.mkdir(parents=True)
    required = "".join(f"Requires-Dist: {line}\n" for line in requires)
    (info / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 1.0\n{required}\n"
    )
    name = distribution.removeprefix("grain-")
    (info / "entry_points.txt").write_text(f"[grain.plugins]\n{name} = {module}\n")
