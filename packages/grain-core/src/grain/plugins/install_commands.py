"""Commands that install packages of this project from where the core was installed.

The core comes from a checkout, a folder of wheels, a repository or an index. Installers record it in the
metadata of the core, so that a hint names a command that works there: the index may not have these packages,
and it has another project's grain-core.
"""

from __future__ import annotations

import glob
import json
import os
from collections.abc import Iterable
from typing import Any

from grain.plugins.first_party import KNOWN_PLUGINS, KnownPlugin
from grain.plugins.metadata import CORE, Distribution, headers_of, installed_distributions
from grain.plugins.uris import unquoted

_OWN = frozenset({CORE, *(known.distribution for known in KNOWN_PLUGINS)})


def install_command(known: KnownPlugin, distributions: Iterable[Distribution] | None = None) -> str:
    """Return the command that installs a plugin."""
    core = _core_among(distributions)
    source = _source_of(known.distribution, core)
    requirement = source or f"{CORE}[{known.name}]>=1,<2"
    return f'{_installer_of(core)} "{requirement}"'


def install_hint(known: KnownPlugin, distributions: Iterable[Distribution] | None = None) -> str:
    """Return the command that installs a plugin, with what it needs besides."""
    core = _core_among(distributions)
    command = install_command(known, [] if core is None else [core])
    if core is None or _source_of(known.distribution, core) is not None:
        return command
    # From an index or by --find-links: these options are not recorded.
    return f"{command} (with the options that installed {CORE}, such as --find-links)"


def upgrade_command(*names: str, distributions: Iterable[Distribution] | None = None) -> str:
    """Return the command that replaces packages of this project, or of others, by newer ones."""
    core = _core_among(distributions)
    sources = ((name, _source_of(name, core)) for name in names)
    words = (name if source is None else f'"{source}"' for name, source in sources)
    return f"{_installer_of(core)} --upgrade {' '.join(words)}"


def repair_hint(name: str, given: str, distributions: Iterable[Distribution] | None = None) -> str:
    """Return the command that completes an installed plugin, such as one that lacks a dependency.

    Args:
        name: The distribution of the plugin, or an empty text if it has none.
        given: The command that the plugin gives, if any.
        distributions: The installed distributions.
    """
    for known in KNOWN_PLUGINS:
        if known.distribution == name:
            return install_hint(known, distributions)
    return given or (upgrade_command(name, distributions=distributions) if name else "")


def package_beside_core(
    name: str, distributions: Iterable[Distribution] | None = None
) -> str | None:
    """Return a package beside the core: in the checkout or the folder of wheels it was installed from."""
    return _beside(name, _origin_of(_core_among(distributions)))


def _core_among(distributions: Iterable[Distribution] | None) -> Distribution | None:
    for distribution in installed_distributions() if distributions is None else distributions:
        if CORE in headers_of(distribution)["name"]:
            return distribution
    return None


def _installer_of(core: Distribution | None) -> str:
    """Return the command of the installer: environments of uv have no pip."""
    name = "" if core is None else (core.read_text("INSTALLER") or "").strip()
    return "uv pip install" if name == "uv" else "pip install"


def _origin_of(core: Distribution | None) -> dict[str, Any]:
    """Return what the installer recorded about the place that the core was installed from."""
    try:
        origin = json.loads((core and core.read_text("direct_url.json")) or "{}")
    except ValueError:
        return {}
    known = isinstance(origin, dict) and isinstance(origin.get("url"), str)
    return origin if known else {}


def _source_of(name: str, core: Distribution | None) -> str | None:
    """Return a path or a URL of a package of this project; None if it is not known."""
    origin = _origin_of(core)
    return _beside(name, origin) or _in_repository(name, origin)


def _beside(name: str, origin: dict[str, Any]) -> str | None:
    url = origin.get("url", "")
    if not url.startswith("file://") or "vcs_info" in origin:
        return None
    beside = os.path.dirname(unquoted(url.removeprefix("file://")))
    if "dir_info" not in origin:
        wheels = glob.glob(
            os.path.join(glob.escape(beside), f"{name.replace('-', '_')}-[0-9]*.whl")
        )
        return max(wheels, default=None)
    folder = os.path.join(beside, name)
    return folder if os.path.isfile(os.path.join(folder, "pyproject.toml")) else None


def _in_repository(name: str, origin: dict[str, Any]) -> str | None:
    """Return the URL of a package in the repository that the core was installed from."""
    recorded = origin.get("vcs_info")
    folder = origin.get("subdirectory")
    if not isinstance(recorded, dict) or not isinstance(folder, str):
        return None
    if name not in _OWN or os.path.basename(folder) != CORE:
        return None
    revision = recorded.get("requested_revision") or recorded.get("commit_id")
    at = f"@{revision}" if revision else ""
    beside = f"{os.path.dirname(folder)}/{name}".removeprefix("/")
    return f"{name} @ {recorded.get('vcs', 'git')}+{origin['url']}{at}#subdirectory={beside}"
