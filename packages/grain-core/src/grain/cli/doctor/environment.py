"""Environment variables: settings of grain, misspelt ones, and variables that slow it down."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping

from grain._config import SETTINGS, Config
from grain.cli.doctor.finding import Finding, Level

_PLUGIN_VARIABLES = ("GRAIN_PLUGINS", "GRAIN_PLUGINS_DISABLE", "GRAIN_PLUGINS_STRICT")
_SETTING_VARIABLES = {f"GRAIN_{name.upper()}": name for name in SETTINGS}
KNOWN = (*_PLUGIN_VARIABLES, *_SETTING_VARIABLES)


def findings(environ: Mapping[str, str] = os.environ) -> Iterator[Finding]:
    """Yield the findings about environment variables."""
    ours = sorted(name for name in environ if name.startswith("GRAIN_"))
    for name in ours:
        yield _variable(name, environ)
    if not ours:
        yield Finding(name="variables", detail="no GRAIN_… variable is set")
    if environ.get("PYTHONDONTWRITEBYTECODE"):
        yield Finding(
            name="variables",
            detail="PYTHONDONTWRITEBYTECODE is set: each worker process recompiles its imports",
            level=Level.NOTE,
            advice="Unset it: workers start faster.",
        )


def _variable(name: str, environ: Mapping[str, str]) -> Finding:
    if name not in KNOWN:
        return Finding(
            name=name,
            detail="is set, but is not a setting of grain",
            level=Level.NOTE,
            advice=f"The settings are {', '.join(KNOWN)}.",
        )
    if name in _SETTING_VARIABLES:
        try:
            Config(environ).get_or_default(_SETTING_VARIABLES[name])
        except ValueError as error:
            return Finding(
                name=name,
                detail=str(error),
                level=Level.PROBLEM,
                advice="Correct or unset the variable.",
            )
    return Finding(name=name, detail=repr(environ[name]))
