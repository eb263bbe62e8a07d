"""An integration is imported with the library that it integrates with, whichever comes first."""

from __future__ import annotations

import importlib
import subprocess
import sys

import pytest

from grain.checkpoint.after_import import import_after


@pytest.fixture
def modules(tmp_path, monkeypatch):
    """Two modules, `heavy` and `integration`, that can be imported."""
    (tmp_path / "heavy.py").write_text("import sys\nassert 'integration' not in sys.modules\n")
    (tmp_path / "integration.py").write_text("import heavy\n")
    (tmp_path / "broken.py").write_text("import heavy\nheavy.missing\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path])
    yield
    for name in ("heavy", "integration", "broken"):
        sys.modules.pop(name, None)


def test_the_integration_follows_the_library(modules):
    finders = [*sys.meta_path]
    import_after("heavy", "integration")
    import_after("heavy", "integration")
    assert "integration" not in sys.modules
    heavy = importlib.import_module("heavy")
    assert "integration" in sys.modules
    assert type(heavy.__spec__.loader).__name__ == "SourceFileLoader"
    assert heavy.__loader__ is heavy.__spec__.loader
    assert sys.meta_path == finders


def test_the_integration_is_imported_at_once_if_the_library_is_there(modules):
    importlib.import_module("heavy")
    import_after("heavy", "integration")
    assert "integration" in sys.modules


def test_an_integration_that_cannot_be_imported_does_not_fail_the_library(modules):
    import_after("heavy", "broken")
    importlib.import_module("heavy")
    assert "broken" not in sys.modules


def test_a_library_that_is_not_installed_stays_missing(modules):
    import_after("grain_has_no_such_library", "integration")
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("grain_has_no_such_library")


_HANDLER_FIRST = """
import sys
import grain

handler = grain.PyGrainCheckpointHandler()
assert "orbax" not in sys.modules
import orbax.checkpoint as ocp

iterator = iter(grain.MapDataset.range(9).to_iter_dataset())
next(iterator)
with ocp.CheckpointManager(sys.argv[1], item_handlers={"it": handler}) as manager:
    manager.save(0, args=ocp.args.Composite(it=grain.PyGrainCheckpointSave(iterator)))
    manager.wait_until_finished()
    next(iterator)
    manager.restore(0, args=ocp.args.Composite(it=grain.python.CheckpointRestore(iterator)))
print(next(iterator))
"""


def test_a_handler_created_before_orbax_is_imported_takes_its_arguments(tmp_path):
    pytest.importorskip("orbax.checkpoint")
    found = subprocess.run(
        [sys.executable, "-c", _HANDLER_FIRST, str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert found.stdout.strip() == "1", found.stderr
