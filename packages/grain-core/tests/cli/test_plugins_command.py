"""`grain plugins`: output and exit codes."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from grain.cli import main
from grain.version import __version__

from .distributions import write_metadata


def install(site: Path, distribution: str, hooks: str, requires: str = "grain-core>=1,<2") -> None:
    """Install a plugin into a directory."""
    package = distribution.replace("-", "_")
    write_metadata(site, distribution, package, [requires])
    (site / f"{package}.py").write_text(
        "from grain.plugins import Kind, PluginSpec, hookimpl\n" + textwrap.dedent(hooks)
    )


GOOD = """
@hookimpl
def grain_sources():
    return [PluginSpec(name="good", target="builtins:list", kind=Kind.MAP_SOURCE,
                       public_names=("Good",), schemes=("good",), summary="Good things.")]
"""
LACKING = """
@hookimpl
def grain_sources():
    return [PluginSpec(name="lacking", target="not_there:Source", kind=Kind.MAP_SOURCE,
                       public_names=("Lacking",), install="pip install not-there")]
"""


@pytest.fixture
def grain(tmp_path: Path):
    """Run the command in a subprocess that finds only the plugins installed by the test."""
    site = tmp_path / "site"
    site.mkdir()
    source = Path(sys.modules["grain.cli"].__file__).parents[2]

    def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        # The plugins of the test environment must not be found.
        program = (
            "import sys, pluggy, grain.sources\n"
            "from grain.cli import main\n"
            f"sys.path[:] = [{str(site)!r}, *(p for p in sys.path if 'packages' not in p)]\n"
            "sys.exit(main())\n"
        )
        return subprocess.run(
            [sys.executable, "-c", program, *arguments],
            capture_output=True,
            text=True,
            env={
                "PATH": os.environ["PATH"],
                "PYTHONPATH": os.pathsep.join([str(site), str(source)]),
                **environment,
            },
        )

    run.site = site
    return run


def test_list_shows_name_distribution_version_status_and_what_is_provided(grain) -> None:
    install(grain.site, "grain-good", GOOD)
    done = grain("plugins", "list")
    assert (done.returncode, done.stderr) == (0, "")
    header, row = done.stdout.splitlines()[:2]
    assert header.split() == [
        "NAME",
        "DISTRIBUTION",
        "VERSION",
        "STATUS",
        "PROVIDES",
        "/",
        "REASON",
    ]
    assert row.split() == ["good", "grain-good", "1.0", "available", "Good"]
    assert re.search(r'pip install "(grain-core\[parquet\]>=1,<2|.*grain-parquet)"', done.stdout)


def test_list_without_plugins_shows_what_can_be_installed(grain) -> None:
    done = grain("plugins", "list")
    assert done.returncode == 0
    assert "No plugins are installed." in done.stdout
    assert "ArrayRecordDataSource" in done.stdout


def test_list_includes_faulty_plugins_and_exits_with_0(grain) -> None:
    install(grain.site, "grain-bad", "raise RuntimeError('nope')")
    install(grain.site, "grain-old", "", requires="grain-core<1")
    done = grain("plugins", "list", GRAIN_PLUGINS_STRICT="1")
    assert done.returncode == 0
    assert "RuntimeError: nope" in done.stdout
    assert "incompatible" in done.stdout


def test_list_as_json_contains_everything(grain) -> None:
    install(grain.site, "grain-good", GOOD)
    install(grain.site, "grain-bad", "raise RuntimeError('nope')")
    done = grain("plugins", "list", "--json", GRAIN_PLUGINS_DISABLE="good")
    listed = json.loads(done.stdout)
    assert listed["core"] == __version__
    assert [(p["name"], p["status"]) for p in listed["plugins"]] == [
        ("bad", "failed"),
        ("good", "blocked"),
    ]
    assert len(listed["not_installed"]) == 5
    (good,) = (
        p for p in json.loads(grain("plugins", "list", "--json").stdout)["plugins"] if p["provides"]
    )
    assert good["provides"][0]["public_names"] == ["Good"]
    assert good["provides"][0]["kind"] == "map-source"
    assert good["distribution"] == "grain-good"
    assert good["version"] == "1.0"


def test_check_exits_with_0_without_problems_and_blocked_plugins_are_no_problem(grain) -> None:
    install(grain.site, "grain-good", GOOD)
    install(grain.site, "grain-bad", "raise RuntimeError('nope')")
    done = grain("plugins", "check", GRAIN_PLUGINS_DISABLE="bad")
    assert done.returncode == 0, done.stdout
    assert "loaded" in done.stdout
    assert "2 plugins, 0 problems." in done.stdout


@pytest.mark.parametrize(
    ("distribution", "hooks", "requires", "status", "fix"),
    [
        ("grain-bad", "raise RuntimeError('nope')", "numpy", "failed", "reinstall grain-bad"),
        ("grain-lacking", LACKING, "numpy", "failed", "pip install not-there"),
        ("grain-old", GOOD, "grain-core<1", "incompatible", "--upgrade grain-core grain-old"),
        ("grain-twin", GOOD, "numpy", "duplicate", "pip uninstall grain-good or grain-twin"),
    ],
)
def test_check_exits_with_1_and_prints_the_fix(
    grain, distribution: str, hooks: str, requires: str, status: str, fix: str
) -> None:
    install(grain.site, "grain-good", GOOD)
    install(grain.site, distribution, hooks, requires)
    done = grain("plugins", "check")
    assert done.returncode == 1
    assert f"of {distribution} 1.0 is {status}" in done.stdout
    assert fix in done.stdout
    assert done.stderr == ""
    checked = grain("plugins", "check", "--json")
    assert checked.returncode == 1
    report = json.loads(checked.stdout)
    assert report["ok"] is False
    assert status in {plugin["status"] for plugin in report["plugins"]}
    assert any(distribution in problem for problem in report["problems"])


def test_check_notes_a_plugin_whose_listing_imports_heavy_modules(grain) -> None:
    install(grain.site, "grain-good", "import heavy_thing\n" + GOOD)
    (grain.site / "heavy_thing.py").touch()
    done = grain("plugins", "check")
    assert done.returncode == 0
    assert "note: listing 'good' of grain-good 1.0 imports heavy_thing" in done.stdout


def test_check_reports_an_installed_distribution_of_google(grain) -> None:
    info = grain.site / "grain-0.2.18.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: grain\nVersion: 0.2.18\n\n")
    done = grain("plugins", "check")
    assert done.returncode == 1
    assert "google's own distribution 'grain' 0.2.18" in done.stdout


def test_an_unknown_plugin_in_the_variables_is_a_problem(grain) -> None:
    done = grain("plugins", "check", GRAIN_PLUGINS="parqet")
    assert done.returncode == 1
    assert "GRAIN_PLUGINS names 'parqet'" in done.stdout


def test_a_closed_pipe_causes_no_traceback(grain) -> None:
    read, write = os.pipe()
    os.close(read)
    program = "import sys; from grain.cli import main; sys.exit(main(['plugins', 'list']))"
    try:
        done = subprocess.run(
            [sys.executable, "-c", program], stdout=write, stderr=subprocess.PIPE, text=True
        )
    finally:
        os.close(write)
    assert done.stderr == ""
    assert done.returncode == 1


def test_without_a_command_help_is_shown_and_the_exit_code_is_2(capsys) -> None:
    assert main([]) == 2
    assert "plugins" in capsys.readouterr().out
    assert main(["plugins"]) == 2
    assert "check" in capsys.readouterr().out


def test_wrong_arguments_exit_with_2(capsys) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["plugins", "lsit"])
    assert ended.value.code == 2
    assert "lsit" in capsys.readouterr().err


def test_the_version_is_that_of_grain_core(capsys) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--version"])
    assert ended.value.code == 0
    assert capsys.readouterr().out == f"grain-core {__version__}\n"


def test_the_module_runs_as_the_command() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "grain", "--version"], capture_output=True, text=True, check=True
    )
    assert done.stdout == f"grain-core {__version__}\n"


@pytest.mark.parametrize("command", ["list", "check"])
def test_what_a_plugin_prints_is_not_in_the_json(grain, command) -> None:
    install(grain.site, "grain-loud", "print('Hello!')" + GOOD)
    finished = grain("plugins", command, "--json")
    assert finished.returncode == 0
    assert [plugin["name"] for plugin in json.loads(finished.stdout)["plugins"]] == ["loud"]
    assert "Hello!" in finished.stderr
