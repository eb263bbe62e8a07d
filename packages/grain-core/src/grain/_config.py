"""Settings of the whole process: `grain.config`, or `GRAIN_<NAME>` in the environment."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple


class Setting(NamedTuple):
    """One setting: its default, the function that reads a given value or text, and its meaning.

    `other_variable` returns the text of a variable of google/grain with the same meaning.
    """

    default: Any
    parse: Callable[[Any], Any]
    summary: str
    other_variable: Callable[[Mapping[str, str]], str | None] = lambda environ: None


def _flag(value: Any) -> bool:
    text = value.strip().lower() if isinstance(value, str) else value
    if text in (True, "1", "true", "yes", "on"):
        return True
    if text in (False, "0", "false", "no", "off", ""):
        return False
    raise ValueError(f"expected true or false, got {value!r}")


def _choice(*allowed: str) -> Callable[[Any], Any]:
    def parse(value: Any) -> str:
        if value not in allowed:
            raise ValueError(f"expected one of {', '.join(allowed)}, got {value!r}")
        return str(value)

    return parse


def _seconds(value: Any) -> float:
    with contextlib.suppress(TypeError, ValueError):
        if (seconds := float(value)) > 0:
            return seconds
    raise ValueError(f"expected a positive number of seconds, got {value!r}")


def _optional(parse: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def parse_optional(value: Any) -> Any:
        if value is None or (isinstance(value, str) and value.strip().lower() in ("", "none")):
            return None
        return parse(value)

    return parse_optional


def _executor(value: Any) -> Any:
    if isinstance(value, str) and value.strip():
        return value.strip()
    if not isinstance(value, str) and hasattr(value, "open"):
        return value
    raise ValueError(f"expected the name of an executor, or an executor, got {value!r}")


def _whole(least: int) -> Callable[[Any], int]:
    def parse(value: Any) -> int:
        with contextlib.suppress(TypeError, ValueError):
            if (number := int(value)) >= least and number == float(value):
                return number
        raise ValueError(f"expected an integer of at least {least}, got {value!r}")

    return parse


def _port(value: Any) -> int:
    number = _whole(0)(value)
    if number > 65535:
        raise ValueError(f"expected a port, from 0 to 65535, got {value!r}")
    return number


def _reference_port(environ: Mapping[str, str]) -> str | None:
    """Return the port of google/grain 0.2.18 if its variable is set."""
    wanted = environ.get("ENABLE_PYGRAIN_PROMETHEUS_TELEMETRY", "")
    return "9431" if wanted.strip().lower() == "true" else None


SETTINGS: Mapping[str, Setting] = {
    "py_debug_mode": Setting(
        False,
        _flag,
        "Whether all pipelines are observed and a table of their nodes is logged now and then.",
    ),
    "py_dataset_visualization_output_dir": Setting(
        None,
        str,
        "A folder for a page about each pipeline, kept up to date; with an empty text, the graph of each "
        "pipeline is logged.",
    ),
    "py_traceback_filtering": Setting(
        "auto",
        _choice("off", "auto", "tracebackhide", "quiet_remove_frames", "remove_frames"),
        "Whether tracebacks omit the library's frames: `off`, `tracebackhide` (pytest and IPython hide "
        "them), `quiet_remove_frames`, `remove_frames` (the full traceback is the cause), or `auto`.",
    ),
    "observe": Setting(
        False,
        _flag,
        "Whether the iterators of all pipelines are observed, so that `stats()` has their measurements.",
    ),
    "report_interval": Setting(
        60.0, _seconds, "Seconds between two reports of `py_debug_mode`, and two updates of a page."
    ),
    "prometheus_port": Setting(
        None,
        _optional(_port),
        "The port at which Prometheus reads the metrics of all pipelines, which are then observed; 0 lets "
        "the system choose.",
        _reference_port,
    ),
    "prometheus_address": Setting(
        "127.0.0.1",
        str,
        "The address of `prometheus_port`; others than a loopback address can be read by other machines.",
    ),
    "worker_keep_devices": Setting(
        False, _flag, "Whether worker processes may see accelerators; they see none by default."
    ),
    "process_start_timeout": Setting(
        300.0,
        _seconds,
        "Seconds the interpreter of a worker process may take to start before that is an error.",
    ),
    "executor": Setting(
        "processes",
        _executor,
        "What computes pipelines with workers: processes, threads, inline, or a plugin's executor.",
    ),
    "max_worker_restarts": Setting(
        3,
        _whole(0),
        "How often each lost worker process is replaced, in a window of time, before that is an error.",
    ),
    "task_timeout": Setting(
        None,
        _optional(_seconds),
        "Seconds after which a worker process that computes one task is replaced; no limit by default.",
    ),
    "worker_memory_limit": Setting(
        None,
        _optional(_whole(1)),
        "Bytes of memory above which a worker process is replaced between tasks; no limit by default.",
    ),
}


class Config:
    """The settings in force, as attributes.

    A value given with `update` or `override` takes precedence over the environment, and the environment
    over the default.

    >>> import grain
    >>> grain.config.worker_keep_devices
    False
    >>> with grain.config.override(worker_keep_devices=True):
    ...     grain.config.worker_keep_devices
    True
    """

    def __init__(self, environ: Mapping[str, str] = os.environ):
        self._environ = environ
        self._given: dict[str, Any] = {}
        self._watchers: dict[str, Callable[[Any], None]] = {}

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
        """Return the setting as given, else as the environment has it, else its default."""
        setting = _setting(name)
        if name in self._given:
            return self._given[name]
        variable = f"GRAIN_{name.upper()}"
        text = self._environ.get(variable)
        if text is None:
            text = setting.other_variable(self._environ)
        if text is None:
            return setting.default
        try:
            return setting.parse(text)
        except ValueError as error:
            raise ValueError(f"Environment variable {variable}: {error}.") from error

    def update(self, name: str, value: Any) -> None:
        """Change a setting for the rest of this process."""
        self._given[name] = _parsed(name, value)
        self._notify([name])

    def watch(self, name: str, changed: Callable[[Any], None]) -> None:
        """Call a function with the value of a setting, now and whenever it may have changed."""
        self._watchers[name] = changed
        changed(self.get_or_default(name))

    def _notify(self, names: Iterable[str]) -> None:
        for name in names:
            if name in self._watchers:
                self._watchers[name](self.get_or_default(name))

    @contextlib.contextmanager
    def override(self, **values: Any) -> Iterator[None]:
        """Change settings in all threads while a `with` block runs; restore them afterwards."""
        given = {name: _parsed(name, value) for name, value in values.items()}
        before = {name: self._given[name] for name in given if name in self._given}
        self._given.update(given)
        try:
            self._notify(given)
            yield
        finally:
            for name in given:
                self._given.pop(name, None)
            self._given.update(before)
            self._notify(given)


def _setting(name: str) -> Setting:
    if name not in SETTINGS:
        raise ValueError(
            f"Unrecognized config option: {name}. Known options: {', '.join(SETTINGS)}."
        )
    return SETTINGS[name]


def _parsed(name: str, value: Any) -> Any:
    setting = _setting(name)
    if name.startswith("py_"):  # google/grain takes any value for its own options.
        return value
    try:
        return setting.parse(value)
    except ValueError as error:
        raise ValueError(f"Config option {name}: {error}.") from error


config = Config()
