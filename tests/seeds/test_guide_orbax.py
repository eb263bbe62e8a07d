"""The guide's checkpoint snippet, with Orbax."""

from __future__ import annotations

from pathlib import Path

import pytest

import grain

ocp = pytest.importorskip("orbax.checkpoint")


def test_orbax_saves_and_restores_the_position(tmp_path: Path) -> None:
    ds = grain.MapDataset.range(1000).seed(42).shuffle().to_iter_dataset()
    ds_iter = iter(ds)

    # Advance iterator
    for _ in range(100):
        x = next(ds_iter)
    assert x == 909

    # Save via Orbax CheckpointManager
    mngr = ocp.CheckpointManager(tmp_path / "my_checkpoint")
    mngr.save(step=100, args=grain.checkpoint.CheckpointSave(ds_iter), force=True)
    mngr.wait_until_finished()
    original = [next(ds_iter) for _ in range(3)]

    # Restore to step 100 and continue from exactly that position
    mngr.restore(100, args=grain.checkpoint.CheckpointRestore(ds_iter))
    x = next(ds_iter)  # element 101, identical to original run

    assert x == original[0] == 688
    assert [next(ds_iter), next(ds_iter)] == original[1:]
    mngr.close()
