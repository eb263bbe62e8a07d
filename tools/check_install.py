"""Check that packages installed in this environment are the checkout's, complete and importable.

Usage: python tools/check_install.py DISTRIBUTION...

A distribution of the same name on the package index is detected here.
"""

from __future__ import annotations

import importlib
import json
import pathlib
import re
import sys
from importlib import metadata

PACKAGES = pathlib.Path(__file__).parent.parent / "packages"


def module_of(name: str) -> str:
    """Return the import name of a distribution; the core's is `grain`."""
    return "grain" if name == "grain-core" else name.replace("-", "_")


def version_in_checkout(name: str) -> str:
    """Return the version in the package's version.py."""
    text = (PACKAGES / name / "src" / module_of(name) / "version.py").read_text()
    match = re.search(r'^__version__ = "(.+)"$', text, re.MULTILINE)
    if match is None:
        raise SystemExit(f"{name}: version.py has no __version__.")
    return match[1]


def faults(name: str) -> list[str]:
    """Return the problems of one installed distribution."""
    try:
        distribution = metadata.distribution(name)
    except metadata.PackageNotFoundError:
        return ["is not installed"]
    found = []
    expected = version_in_checkout(name)
    if distribution.version != expected:
        found.append(f"is version {distribution.version}; the checkout has {expected}")
    origin = json.loads(distribution.read_text("direct_url.json") or "{}").get("url", "an index")
    if not origin.startswith("file:"):
        found.append(f"came from {origin}; expected a local path")
    module = importlib.import_module(module_of(name))
    if getattr(module, "__version__", None) != expected:
        found.append(f"has __version__ {getattr(module, '__version__', None)!r} when imported")
    files = {pathlib.PurePath(file).name for file in distribution.files or ()}
    if missing := {"py.typed", "LICENSE"} - files:
        found.append(f"lacks {', '.join(sorted(missing))}")
    return found


def main(names: list[str]) -> int:
    """Print a line for each distribution; return 1 if there are problems."""
    wrong = 0
    for name in names:
        problems = faults(name)
        print(f"{name}: {'; '.join(problems) or metadata.version(name) + ', ok'}")
        wrong += bool(problems)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
