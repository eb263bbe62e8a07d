"""Looking a name up imports only plugins that may have it, so others cannot stop a program."""

from __future__ import annotations

import subprocess
import sys

import pytest

from grain.plugins import DuplicatePluginError, Status, UnknownNameError

GOOD = {"public_names": ("Good",), "schemes": ("good",), "suffixes": (".good",)}


@pytest.mark.parametrize(
    "look_up",
    [
        lambda manager: manager.resolve("Good"),
        lambda manager: manager.spec("good"),
        lambda manager: manager.open("good://x"),
        lambda manager: manager.open("folder/x.good"),
        lambda manager: manager.open("folder/x.good-00000-of-00010"),
        lambda manager: manager.conformance_cases("good"),
    ],
)
def test_a_lookup_runs_no_code_of_plugins_without_the_name(site, look_up) -> None:
    site.add("grain-other", hooks="raise RuntimeError('was imported')")
    site.add_source("grain-good", **GOOD)
    manager = site.manager()
    look_up(manager)
    assert "grain_other" not in sys.modules
    assert {p.name: p.status for p in manager.plugins()}["other"] is Status.FAILED


def test_an_unknown_name_is_looked_for_in_all_plugins(site) -> None:
    site.add_source("grain-good", **GOOD)
    built = "@hookimpl\ndef grain_sources():\n    return [PluginSpec(name='b', kind='map-source',"
    site.add(
        "grain-built", hooks=f"{built} target='builtins:dict', public_names=('Bu' + 'ilt',))]\n"
    )
    manager = site.manager()
    assert manager.resolve("Built") is dict
    with pytest.raises(UnknownNameError, match="Absent"):
        manager.resolve("Absent")


def test_a_contested_name_is_refused_although_others_are_not_read(site) -> None:
    site.add_source("grain-good", **GOOD)
    site.add_source("grain-rival", public_names=("Good",))
    site.add("grain-other", hooks="raise RuntimeError('was imported')")
    with pytest.raises(DuplicatePluginError, match=r"grain-good.*grain-rival"):
        site.manager().resolve("Good")
    assert "grain_other" not in sys.modules


@pytest.mark.parametrize(
    "fault", ["while True: pass", "import os; os._exit(7)", "import os; os.kill(os.getpid(), 11)"]
)
def test_a_plugin_that_hangs_or_crashes_stops_no_program_that_uses_another(site, fault) -> None:
    site.add("grain-fatal", hooks=fault)
    site.add_source("grain-good", **GOOD)
    program = "import grain; print(grain.sources.Good('x').path, grain.sources.open('y.good').path)"
    code = f"import sys; sys.path.insert(0, {str(site.path)!r}); {program}"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=100, check=True
    )
    assert done.stdout.split() == ["x", "y.good"]
