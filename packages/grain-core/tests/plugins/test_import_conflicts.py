"""Other distributions that install into the import package `grain` are reported."""

from __future__ import annotations

import base64
import hashlib
import json

import pytest

from grain.plugins.import_conflicts import import_conflicts


@pytest.fixture
def check(site):
    """Return a check of the site, with its `grain` directory as the running package."""
    package = site.path / "grain"
    package.mkdir()
    (package / "__init__.py").write_text("# ours")

    def run() -> list[str]:
        return import_conflicts(site.distributions(), package=package, core="1.0.0")

    return run


def install(site, name: str, version: str, files: dict[str, str]) -> None:
    info = site.path / f"{name.replace('-', '_')}-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n\n")
    lines = []
    for file, content in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(content.encode()).digest()).rstrip(b"=")
        lines.append(f"{file},sha256={digest.decode()},{len(content)}")
    (info / "RECORD").write_text("\n".join(lines))


def test_grain_core_alone_is_no_problem(site, check) -> None:
    install(site, "grain-core", "1.0.0", {"grain/__init__.py": "# ours"})
    install(site, "grain-parquet", "1.0.0", {"grain_parquet/__init__.py": ""})
    assert check() == []


def test_running_from_a_source_tree_without_metadata_is_no_problem(check) -> None:
    assert check() == []


def test_googles_distribution_is_named_with_the_files_it_replaced(site, check) -> None:
    install(site, "grain-core", "1.0.0", {"grain/__init__.py": "# ours"})
    install(site, "grain", "0.2.18", {"grain/__init__.py": "# google's"})
    (problem,) = check()
    assert "google's own distribution 'grain' 0.2.18" in problem
    assert "are not its own" in problem
    assert 'pip install --force-reinstall --no-deps "grain-core==1.0.0"' in problem
    (site.path / "grain" / "__init__.py").write_text("# google's")
    (problem,) = check()
    assert "it has replaced 1 files, among them grain/__init__.py" in problem


def test_any_other_distribution_that_writes_into_the_package_is_named_too(site, check) -> None:
    install(site, "grain-rude", "0.1", {"grain/rude.py": "", "grain_rude/__init__.py": ""})
    (problem,) = check()
    assert "'grain-rude' 0.1 installs into the import package 'grain'" in problem
    assert "google" not in problem


def test_another_grain_core_than_the_one_that_runs_is_a_problem(site, check) -> None:
    install(site, "grain-core", "0.1.0", {})
    (problem,) = check()
    assert "grain-core 0.1.0" in problem
    assert "the running code is 1.0.0" in problem


def test_a_core_from_a_checkout_is_fixed_from_there(site, check, tmp_path) -> None:
    install(site, "grain-core", "1.0.0", {"grain/__init__.py": "# ours"})
    install(site, "grain", "0.2.18", {"grain/__init__.py": "# google's"})
    checkout = tmp_path / "packages" / "grain-core"
    checkout.mkdir(parents=True)
    (checkout / "pyproject.toml").touch()
    origin = json.dumps({"url": checkout.as_uri(), "dir_info": {}})
    (site.path / "grain_core-1.0.0.dist-info" / "direct_url.json").write_text(origin)
    (problem,) = check()
    assert f'pip install --force-reinstall --no-deps "{checkout}"' in problem
