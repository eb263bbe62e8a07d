"""Settings: the environment, updates, and names that do not exist."""

from __future__ import annotations

import copy
import os
import pickle
import subprocess
import sys

import pytest

import grain
from grain._config import SETTINGS, Config


def test_every_setting_has_a_default_that_its_text_could_say():
    config = Config(environ={})
    for name, setting in SETTINGS.items():
        assert getattr(config, name) == setting.default
        assert setting.summary


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1", True),
        ("true", True),
        (" YES ", True),
        ("on", True),
        ("0", False),
        ("false", False),
        ("off", False),
        ("", False),
    ],
)
def test_the_environment_sets_a_flag(text, value):
    config = Config(environ={"GRAIN_WORKER_KEEP_DEVICES": text})
    assert config.worker_keep_devices is value
    assert config.get_or_default("worker_keep_devices") is value


@pytest.mark.parametrize(
    ("variable", "text", "message"),
    [
        ("GRAIN_WORKER_KEEP_DEVICES", "perhaps", "expected true or false, got 'perhaps'"),
        (
            "GRAIN_PROCESS_START_TIMEOUT",
            "soon",
            "expected a positive number of seconds, got 'soon'",
        ),
        ("GRAIN_EXECUTOR", " ", "expected the name of an executor, or an executor, got ' '"),
        ("GRAIN_MAX_WORKER_RESTARTS", "2.5", "expected an integer of at least 0, got '2.5'"),
    ],
)
def test_a_text_that_cannot_be_read_names_its_variable(variable, text, message):
    config = Config(environ={variable: text})
    with pytest.raises(ValueError, match=f"Environment variable {variable}: {message}"):
        getattr(config, variable.removeprefix("GRAIN_").lower())


# A value for each setting that is not its default: as a program gives it, and as the environment does.
GIVEN = {
    "py_debug_mode": (True, "true"),
    "py_dataset_visualization_output_dir": ("/drawings", "/drawings"),
    "py_traceback_filtering": ("tracebackhide", "tracebackhide"),
    "observe": (True, "1"),
    "report_interval": (2.5, "2.5"),
    "prometheus_port": (9000, "9000"),
    "prometheus_address": ("0.0.0.0", "0.0.0.0"),
    "worker_keep_devices": (True, "yes"),
    "process_start_timeout": (2.5, "2.5"),
    "executor": ("threads", " threads "),
    "max_worker_restarts": (0, "0"),
    "task_timeout": (2.5, "2.5"),
    "worker_memory_limit": (1 << 30, "1073741824"),
}


def test_every_setting_is_in_the_table_of_these_tests():
    assert set(GIVEN) == set(SETTINGS)


@pytest.mark.parametrize("name", GIVEN)
def test_a_setting_follows_the_environment_then_updates_then_overrides(name):
    value, text = GIVEN[name]
    default = SETTINGS[name].default
    environ = {}
    config = Config(environ)
    assert getattr(config, name) == config.get_or_default(name) == default
    environ[f"GRAIN_{name.upper()}"] = text
    assert getattr(config, name) == config.get_or_default(name) == value
    config.update(name, default)
    assert getattr(config, name) == default
    with config.override(**{name: value}):
        assert getattr(config, name) == value
    assert getattr(config, name) == default


@pytest.mark.parametrize("name", GIVEN)
def test_an_override_ends_with_its_block_whatever_happens_there(name):
    value, _ = GIVEN[name]
    environ = {}
    config = Config(environ)
    with pytest.raises(KeyError), config.override(**{name: value}):
        raise KeyError
    assert getattr(config, name) == SETTINGS[name].default
    environ[f"GRAIN_{name.upper()}"] = GIVEN[name][1]
    assert getattr(config, name) == value


def test_an_override_with_an_unknown_name_changes_nothing():
    config = Config(environ={})
    with (
        pytest.raises(ValueError, match="Unrecognized config option: no_such"),
        config.override(worker_keep_devices=True, no_such=1),
    ):
        pass
    assert config.worker_keep_devices is False


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("worker_keep_devices", "perhaps", "expected true or false, got 'perhaps'"),
        ("worker_keep_devices", None, "expected true or false, got None"),
        ("process_start_timeout", 0, "expected a positive number of seconds, got 0"),
        ("process_start_timeout", "soon", "expected a positive number of seconds, got 'soon'"),
    ],
)
def test_a_value_that_makes_no_sense_is_refused(name, value, message):
    config = Config(environ={})
    with pytest.raises(ValueError, match=f"Config option {name}: {message}"):
        config.update(name, value)
    assert getattr(config, name) == SETTINGS[name].default


def test_the_start_of_a_worker_may_take_minutes_on_a_loaded_machine_by_default():
    assert Config(environ={}).process_start_timeout == 300.0


def test_a_flag_given_as_text_means_what_it_says():
    config = Config(environ={})
    config.update("worker_keep_devices", "false")
    assert config.worker_keep_devices is False


@pytest.mark.parametrize("use", [Config.get_or_default, lambda c, n: c.update(n, 1), getattr])
def test_an_unknown_name_is_refused_with_the_known_ones(use):
    with pytest.raises(ValueError, match=r"Unrecognized config option: no_such.*py_debug_mode"):
        use(Config(environ={}), "no_such")


def test_a_setting_is_changed_by_update_alone():
    config = Config(environ={})
    with pytest.raises(ValueError, match=r"Please use update\('py_debug_mode', True\)"):
        config.py_debug_mode = True
    assert config.py_debug_mode is False


def test_settings_are_listed():
    assert set(SETTINGS) <= set(dir(grain.config))
    assert "update" in dir(grain.config)


def test_settings_can_be_copied():
    config = Config(environ={})
    config.update("process_start_timeout", 3.0)
    for copied in (copy.copy(config), copy.deepcopy(config), pickle.loads(pickle.dumps(config))):
        assert copied.process_start_timeout == 3.0


def test_the_librarys_own_settings_follow_the_environment():
    program = "import grain; print(grain.config.process_start_timeout)"
    environment = os.environ | {"GRAIN_PROCESS_START_TIMEOUT": "7"}
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=environment,
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.stdout == "7.0\n"
