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
        ("off", False),
        ("", False),
    ],
)
def test_the_environment_sets_a_flag(text, value):
    config = Config(environ={"GRAIN_WORKER_KEEP_DEVICES": text})
    assert config.worker_keep_devices is value
    assert config.get_or_default("worker_keep_devices") is value


def test_the_environment_sets_numbers_and_texts():
    config = Config(
        environ={
            "GRAIN_PROCESS_START_TIMEOUT": "2.5",
            "GRAIN_PY_DATASET_VISUALIZATION_OUTPUT_DIR": "/tmp/drawings",
        }
    )
    assert config.process_start_timeout == 2.5
    assert config.py_dataset_visualization_output_dir == "/tmp/drawings"


@pytest.mark.parametrize(
    ("variable", "text", "message"),
    [
        ("GRAIN_WORKER_KEEP_DEVICES", "perhaps", "expected true or false, got 'perhaps'"),
        ("GRAIN_PROCESS_START_TIMEOUT", "soon", "could not convert string to float: 'soon'"),
    ],
)
def test_a_text_that_cannot_be_read_names_its_variable(variable, text, message):
    config = Config(environ={variable: text})
    with pytest.raises(ValueError, match=f"Environment variable {variable}: {message}"):
        getattr(config, variable.removeprefix("GRAIN_").lower())


def test_an_update_goes_before_the_environment():
    config = Config(environ={"GRAIN_PY_DEBUG_MODE": "0"})
    config.update("py_debug_mode", True)
    assert config.py_debug_mode is True
    config.update("py_debug_mode", False)
    assert config.py_debug_mode is False


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
