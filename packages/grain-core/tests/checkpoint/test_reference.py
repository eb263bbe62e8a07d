"""Checkpoints that google/grain 0.2.18 wrote restore here; ours are the same files.

`nox -s checkpoints` does the same with both libraries, and the other way round.
"""

from __future__ import annotations

import json
import pathlib
import shutil

import pytest

import grain
from grain.checkpoint import CheckpointHandler
from grain.dataset.checkpointing import state_text

from . import pipelines

DATA = pathlib.Path(__file__).with_name("data")
RECORDED = json.loads((DATA / "recorded.json").read_text())


def close(iterator):
    with iterator:
        pass


def taken(iterator):
    return [pipelines.as_json(e) for _, e in zip(range(pipelines.AFTER), iterator, strict=False)]


def possible(*, here):
    name = pipelines.HERE if here else pipelines.THERE
    return [pipeline for pipeline in RECORDED if (name, pipeline) not in pipelines.LIMITS]


def test_every_pipeline_is_recorded():
    assert set(RECORDED) == set(pipelines.PIPELINES)
    for name, steps in RECORDED.items():
        assert tuple(map(int, steps)) == pipelines.steps(name)


@pytest.mark.parametrize("name", possible(here=True))
def test_a_recorded_checkpoint_resumes_as_recorded(tmp_path, name):
    iterator = iter(pipelines.PIPELINES[name]())
    for recorded in RECORDED[name].values():
        (tmp_path / "process_0-of-1.json").write_text(recorded["file"])
        CheckpointHandler().restore(tmp_path, iterator)
        assert taken(iterator) == recorded["following"]
    close(iterator)


@pytest.mark.parametrize("name", possible(here=False))
def test_a_checkpoint_here_is_the_same_file(name):
    iterator = iter(pipelines.PIPELINES[name]())
    given = 0
    for step, recorded in RECORDED[name].items():
        for _ in range(given, int(step)):
            next(iterator)
        given = int(step)
        assert state_text(iterator) == recorded["file"]


def test_a_state_that_cannot_be_restored_is_refused(tmp_path):
    [recorded] = RECORDED["workers"].values()
    state = json.loads(recorded["file"])
    state["iterators_in_use_states"][1]["next_index"] += 3
    (tmp_path / "process_0-of-1.json").write_text(json.dumps(state))
    iterator = iter(pipelines.PIPELINES["workers"]())
    with pytest.raises(ValueError, match="part for each of 2 workers") as caught:
        CheckpointHandler().restore(tmp_path, iterator)
    assert "The state to restore" in "\n".join(caught.value.__notes__)
    close(iterator)


@pytest.mark.parametrize("name", ["loader", "shuffle and batch"])
def test_a_manager_restores_what_the_reference_saved_with_one(tmp_path, name):
    ocp = pytest.importorskip("orbax.checkpoint")
    # A copy, for a manager may tidy up.
    folder = tmp_path / "checkpoints"
    shutil.copytree(DATA / "orbax" / name.replace(" ", "_"), folder)
    iterator = iter(pipelines.PIPELINES[name]())
    with ocp.CheckpointManager(folder) as manager:
        assert manager.latest_step() == 3
        args = ocp.args.Composite(data=grain.checkpoint.CheckpointRestore(iterator))
        manager.restore(3, args=args)
        assert taken(iterator) == RECORDED[name]["3"]["following"]
        # And it continues saving there.
        args = ocp.args.Composite(data=grain.checkpoint.CheckpointSave(iterator))
        assert manager.save(11, args=args)
        manager.wait_until_finished()
        fresh = iter(pipelines.PIPELINES[name]())
        args = ocp.args.Composite(data=grain.checkpoint.CheckpointRestore(fresh))
        manager.restore(11, args=args)
    assert taken(fresh) == taken(iterator)
