"""Another distribution with the import name `grain`, installed over the core."""

from __future__ import annotations

import json

import pytest

from .environments import Environment
from .wheels import write_wheel


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """Return an environment where a distribution `grain` overwrites files of the core."""
    made = Environment(tmp_path_factory.mktemp("foreign"))
    made.install(
        write_wheel(
            made.wheels,
            "grain",
            "0.2.18",
            {"grain/__init__.py": b"FOREIGN = True\n", "grain/sources.py": b"FOREIGN = True\n"},
        )
    )
    return made


def test_check_still_runs_and_names_the_distribution_that_owns_the_files(
    environment: Environment,
) -> None:
    assert environment.run("import grain; print(grain.FOREIGN)") == "True\n"
    done = environment.grain("plugins", "check")
    assert done.returncode == 1
    assert "google's own distribution 'grain' 0.2.18" in done.stdout
    assert "it has replaced 2 files, among them grain/__init__.py" in done.stdout
    assert "pip uninstall grain, then pip install --force-reinstall --no-deps" in done.stdout


def test_the_problem_is_in_the_json_output(environment: Environment) -> None:
    report = json.loads(environment.grain("plugins", "check", "--json").stdout)
    assert report["ok"] is False
    assert len(report["problems"]) == 1
