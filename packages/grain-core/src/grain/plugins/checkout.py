"""Packages of the checkout that the core was installed from, if it was: the index may not have them."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable

from grain.plugins.installed import CORE, Distribution, headers_of, installed_distributions
from grain.plugins.known import KnownPlugin
from grain.plugins.uris import unquoted


def install_command(known: KnownPlugin) -> str:
    """The command that installs a plugin: from the checkout that the core is from, or from the index."""
    folder = package_beside_core(known.distribution)
    return known.install if folder is None else f'pip install "{folder}"'


def package_beside_core(
    name: str, distributions: Iterable[Distribution] | None = None
) -> str | None:
    """The folder of a package in the checkout that the core was installed from, if that is so."""
    for distribution in installed_distributions() if distributions is None else distributions:
        if CORE in headers_of(distribution)["name"]:
            break
    else:
        return None
    try:
        origin = json.loads(distribution.read_text("direct_url.json") or "{}")
        url = origin["url"]
        if "dir_info" not in origin or not url.startswith("file://"):
            return None
    except (AttributeError, KeyError, TypeError, ValueError):
        return None
    folder = os.path.join(os.path.dirname(unquoted(url.removeprefix("file://"))), name)
    return folder if os.path.isfile(os.path.join(folder, "pyproject.toml")) else None
