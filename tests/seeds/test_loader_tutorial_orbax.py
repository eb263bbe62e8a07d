"""The DataLoader tutorial's checkpoint cells, with Orbax."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import grain.python as grain

from .test_loader_tutorial import ResizeAndCrop, make_index_sampler, source

ocp = pytest.importorskip("orbax.checkpoint")


def test_orbax_restores_the_loader(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data_loader = grain.DataLoader(
        data_source=source,
        operations=[ResizeAndCrop()],
        sampler=make_index_sampler(),
        worker_count=0,
    )
    data_iter = iter(data_loader)

    num_steps = 5

    # Read some elements.
    for i in range(num_steps):
        x = next(data_iter)
        print(i, x["file_name"], x["label"])

    mngr = ocp.CheckpointManager(tmp_path / "orbax")

    # Save the checkpoint
    assert mngr.save(step=num_steps, args=grain.GrainCheckpointSave(data_iter), force=True)
    # Checkpoint saving in Orbax is asynchronous by default, so we'll wait until
    # finished before examining checkpoint.
    mngr.wait_until_finished()

    [written] = (tmp_path / "orbax").glob("*/*/*.json")
    state = json.loads(written.read_text())
    assert state["last_seen_indices"] == {"0": 4}
    assert state["sampler"] == repr(make_index_sampler())

    capsys.readouterr()
    # Read more elements and advance the iterator
    for i in range(5, 10):
        x = next(data_iter)
        print(i, x["file_name"], x["label"])
    first_time = capsys.readouterr().out

    # Restore iterator from previously saved checkpoint
    mngr.restore(num_steps, args=grain.GrainCheckpointRestore(data_iter))

    # Iterator should be set back to start from 5.
    for i in range(5, 10):
        x = next(data_iter)
        print(i, x["file_name"], x["label"])

    assert capsys.readouterr().out == first_time
    assert first_time.splitlines()[0] == "5 1.jpg 11"
    mngr.close()
