"""Whether the import name `grain` belongs to grain-core alone, or others have installed into it."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Iterator
from pathlib import Path

from grain.plugins.checkout import package_beside_core
from grain.plugins.installed import CORE, ISOLATED, Distribution, headers_of
from grain.plugins.settings import normalise
from grain.version import __version__

PACKAGE = Path(__file__).parents[1]
GOOGLE = "grain"


def ownership_problems(
    distributions: Iterable[Distribution],
    *,
    package: Path = PACKAGE,
    core: str = __version__,
) -> list[str]:
    """A sentence for each distribution that has no business in the package `grain`.

    Args:
        distributions: The installed distributions.
        package: The directory of the package `grain` that is running.
        core: The version of the code that is running.
    """
    problems = []
    distributions = list(distributions)
    # From where the core is, if that is a checkout: the index may not have this version of it.
    again = package_beside_core(CORE, distributions) or f"{CORE}=={core}"
    for distribution in distributions:
        headers = headers_of(distribution)
        name = next(iter(headers["name"]), "")
        version = next(iter(headers["version"]), "(version unknown)")
        if normalise(name) == CORE:
            if version != core:
                problems.append(
                    f"{CORE} {version} is what is installed by that name, but the code that runs is"
                    f" {core}, from {package}."
                    f' To mend it: pip install --force-reinstall "{again}"'
                )
            continue
        files = dict(_files_in_package(distribution))
        if normalise(name) == GOOGLE or files:
            problems.append(_intrusion(name, version, files, package=package, again=again))
    return problems


def _intrusion(name: str, version: str, files: dict[str, str], *, package: Path, again: str) -> str:
    who = f"google's own distribution {name!r}" if normalise(name) == GOOGLE else repr(name)
    taken = sorted(file for file, digest in files.items() if _digest(package, file) == digest)
    if taken:
        state = f"{len(taken)} of the files in place are its own, {taken[0]} among them"
    else:
        state = f"the files in place, in {package}, are not its own"
    return (
        f"{who} {version} installs into the import package 'grain', which belongs to {CORE}:"
        f" {state}. To mend it: pip uninstall {name}, then"
        f' pip install --force-reinstall --no-deps "{again}"'
    )


def _files_in_package(distribution: Distribution) -> Iterator[tuple[str, str]]:
    """The Python files the distribution put into `grain/`, with their recorded digests."""
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
    """The digest of a file of the running package, as a wheel's RECORD spells it."""
    try:
        content = (package.parent / file).read_bytes()
    except OSError:
        return ""
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest())
    return "sha256=" + digest.rstrip(b"=").decode()
