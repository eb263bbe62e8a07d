"""Detection of other distributions that install into the import package `grain`."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Iterator
from pathlib import Path

from grain.plugins.diagnostics import FIX
from grain.plugins.install_commands import package_beside_core
from grain.plugins.metadata import CORE, ISOLATED, Distribution, headers_of, normalise
from grain.version import __version__

PACKAGE = Path(__file__).parents[1]
GOOGLE = "grain"
LOCAL = "+local"


def import_conflicts(
    distributions: Iterable[Distribution],
    *,
    package: Path = PACKAGE,
    core: str = __version__,
) -> list[str]:
    """Return a sentence for each distribution that conflicts with grain-core over the package `grain`.

    Args:
        distributions: The installed distributions.
        package: The directory of the package `grain` that is running.
        core: The version of the code that is running.
    """
    problems = []
    distributions = list(distributions)
    # From the checkout of the core, if there is one: the index may not have this version.
    source = package_beside_core(CORE, distributions) or f"{CORE}=={core}"
    alias = package_beside_core(GOOGLE, distributions)
    if alias is not None:
        # Other packages may require `grain`: this distribution satisfies them.
        source = f'{source}" "{alias}'
    for distribution in distributions:
        headers = headers_of(distribution)
        name = next(iter(headers["name"]), "")
        version = next(iter(headers["version"]), "(version unknown)")
        if normalise(name) == CORE:
            if version != core:
                problems.append(
                    f"{CORE} {version} is installed, but the running code is {core}, from {package}."
                    f'{FIX}pip install --force-reinstall "{source}"'
                )
            continue
        files = dict(_files_in_package(distribution))
        if normalise(name) == GOOGLE and version.endswith(LOCAL) and not files:
            continue  # This project's: it satisfies requirements of `grain` and has no modules.
        if normalise(name) == GOOGLE or files:
            problems.append(_conflict(name, version, files, package=package, source=source))
    return problems


def _conflict(name: str, version: str, files: dict[str, str], *, package: Path, source: str) -> str:
    distribution = (
        f"google's own distribution {name!r}" if normalise(name) == GOOGLE else repr(name)
    )
    replaced = sorted(file for file, digest in files.items() if _digest(package, file) == digest)
    if replaced:
        state = f"it has replaced {len(replaced)} files, among them {replaced[0]}"
    else:
        state = f"the files in {package} are not its own"
    return (
        f"{distribution} {version} installs into the import package 'grain', which belongs to {CORE}:"
        f" {state}.{FIX}pip uninstall {name}, then"
        f' pip install --force-reinstall --no-deps "{source}"'
    )


def _files_in_package(distribution: Distribution) -> Iterator[tuple[str, str]]:
    """Yield the Python files that a distribution put into `grain/`, with their recorded digests."""
    try:
        record = distribution.read_text("RECORD") or ""
    except ISOLATED:
        return
    for line in record.splitlines():
        if line.startswith("grain/"):
            path, _, rest = line.partition(",")
            if path.endswith(".py"):
                yield path, rest.partition(",")[0]


def _digest(package: Path, file: str) -> str:
    """Return the digest of a file of the running package in the form of a wheel's RECORD."""
    try:
        content = (package.parent / file).read_bytes()
    except OSError:
        return ""
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest())
    return "sha256=" + digest.rstrip(b"=").decode()
