"""Settings of the library: `grain.config.update(name, value)` or `GRAIN_<NAME>` in the environment."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple


class Setting(NamedTuple):
    """One setting: its default, how a text is read, and what it means."""

    default: Any
    parse: Callable[[str], Any]
    summary: str


def _flag(text: str) -> bool:
    value = text.strip().lower()
    if value in {"1", "true", "yes", "on"}:
        return True
    if value in {"0", "false", "no", "off", ""}:
        return False
    raise ValueError(f"expected true or false, got {text!r}")


SETTINGS: Mapping[str, Setting] = {
    "py_debug_mode": Setting(
        False, _flag, "Accepted for compatibility: measure and report while a pipeline runs."
    ),
    "py_dataset_visualization_output_dir": Setting(
        None, str, "Accepted for compatibility: a folder for drawings of pipelines."
    ),
    "py_traceback_filtering": Setting(
        "off", str, "Accepted for compatibility: tracebacks are never cut here."
    ),
    "worker_keep_devices": Setting(
        False, _flag, "Whether worker processes may see accelerators; they see none by default."
    ),
    "process_start_timeout": Setting(
        60.0, float, "Seconds a worker process may take to start before that is an error."
    ),
}


class Config:
    """The settings in force, as attributes.

    >>> import grain
    >>> grain.config.worker_keep_devices
    False
    """

    def __init__(self, environ: Mapping[str, str] = os.environ):
        self._environ = environ
        self._given: dict[str, Any] = {}

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self.get_or_default(name)

    def __setattr__(self, name: str, value: Any) -> None:
        if not name.startswith("_"):
            raise ValueError(f"Please use update({name!r}, {value!r}).")
        super().__setattr__(name, value)

    def __dir__(self) -> list[str]:
        return sorted([*super().__dir__(), *SETTINGS])

    def get_or_default(self, name: str) -> Any:
        """The setting as updated, else as the environment gives it, else its default."""
        setting = self._setting(name)
        if name in self._given:
            return self._given[name]
        variable = f"GRAIN_{name.upper()}"
        text = self._environ.get(variable)
        if text is None:
            return setting.default
        try:
            return setting.parse(text)
        except ValueError as error:
            raise ValueError(f"Environment variable {variable}: {error}.") from error

    def update(self, name: str, value: Any) -> None:
        """Sets a setting for this process."""
        self._setting(name)
        self._given[name] = value

    def _setting(self, name: str) -> Setting:
        if name not in SETTINGS:
            raise ValueError(
                f"Unrecognized config option: {name}. Known options: {', '.join(SETTINGS)}."
            )
        return SETTINGS[name]


config = Config()
