"""Iterators in Orbax: alone and beside a model, at once and in the background, old interface and new."""

from __future__ import annotations

import importlib
import json

import numpy as np
import pytest

import grain
from grain.checkpoint import ChangedPipelineError, CheckpointHandler

ocp = pytest.importorskip("orbax.checkpoint")
jnp = pytest.importorskip("jax.numpy")


def of_threads() -> grain.IterDataset:
    ds = grain.MapDataset.range(40).seed(3).shuffle().map(np.square)
    ds = ds.to_iter_dataset(grain.ReadOptions(num_threads=2, prefetch_buffer_size=8))
    return grain.experimental.ThreadPrefetchIterDataset(ds.batch(2), prefetch_buffer_size=3)


def of_workers() -> grain.IterDataset:
    ds = grain.MapDataset.range(40).seed(3).shuffle().map(np.square).batch(2).to_iter_dataset()
    return ds.mp_prefetch(grain.MultiprocessingOptions(num_workers=1, per_worker_buffer_size=4))


def of_order() -> grain.IterDataset:
    ds = grain.MapDataset.range(40).to_iter_dataset().filter(lambda x: x % 3 > 0)
    return ds.window_shuffle(5, seed=2).batch(2)


def loader(worker_count: int = 0) -> grain.DataLoader:
    return grain.DataLoader(
        data_source=list(range(40)),
        sampler=grain.samplers.IndexSampler(40, shuffle=True, seed=1, num_epochs=1),
        operations=[grain.transforms.Batch(2)],
        worker_count=worker_count,
    )


MAKERS = {
    "threads": of_threads,
    "workers": of_workers,
    "order": of_order,
    "loader": loader,
    "loader with a worker": lambda: loader(1),
}


def rest(iterator) -> list[list[int]]:
    return [np.asarray(batch).tolist() for batch in iterator]


@pytest.mark.parametrize("name", MAKERS)
def test_a_manager_saves_and_restores_while_elements_are_computed_ahead(tmp_path, name):
    make = MAKERS[name]
    with (
        iter(make()) as iterator,
        iter(make()) as fresh,
        ocp.CheckpointManager(tmp_path / "checkpoints") as manager,
    ):
        for step in range(1, 6):
            next(iterator)
            if step in (2, 5):
                # In the background by default: the iterator continues at once.
                assert manager.save(step, args=grain.checkpoint.CheckpointSave(iterator))
        expected = rest(iterator)
        manager.wait_until_finished()
        assert manager.all_steps() == [2, 5]
        restored = manager.restore(5, args=grain.checkpoint.CheckpointRestore(fresh))
        assert restored is fresh
        assert rest(fresh) == expected != []
        # And back to an earlier step, in an iterator that has ended.
        manager.restore(2, args=grain.checkpoint.CheckpointRestore(fresh))
        assert rest(fresh)[3:] == expected
    [file] = tmp_path.glob("checkpoints/5/*/*.json")
    assert isinstance(json.loads(file.read_text()), dict)


@pytest.mark.parametrize("in_background", [True, False], ids=["async", "sync"])
def test_an_iterator_is_saved_beside_a_models_state(tmp_path, in_background):
    params = {"weights": jnp.arange(6.0).reshape(2, 3), "step": jnp.array(2)}
    train, validation = iter(of_order()), iter(loader())
    next(train), next(train), next(validation)
    options = ocp.CheckpointManagerOptions(enable_async_checkpointing=in_background, max_to_keep=1)
    with ocp.CheckpointManager(tmp_path / "checkpoints", options=options) as manager:
        manager.save(
            2,
            args=ocp.args.Composite(
                model=ocp.args.StandardSave(params),
                train=grain.checkpoint.CheckpointSave(train),
                validation=grain.checkpoint.CheckpointSave(item=validation),
            ),
        )
        expected = [rest(train), rest(validation)]
        manager.wait_until_finished()
    # A new manager, as in a new process.
    train, validation = iter(of_order()), iter(loader())
    with ocp.CheckpointManager(tmp_path / "checkpoints", options=options) as manager:
        restored = manager.restore(
            manager.latest_step(),
            args=ocp.args.Composite(
                model=ocp.args.StandardRestore(params),
                train=grain.checkpoint.CheckpointRestore(train),
                validation=grain.checkpoint.CheckpointRestore(validation),
            ),
        )
    assert restored["train"] is train
    assert np.array_equal(restored["model"]["weights"], params["weights"])
    assert [rest(train), rest(validation)] == expected
    assert sorted(path.name for path in (tmp_path / "checkpoints/2/train").glob("p*")) == [
        "pipeline_0-of-1.txt",
        "process_0-of-1.json",
    ]


def test_a_manager_takes_the_handler_itself(tmp_path):
    iterator = iter(of_order())
    next(iterator)
    handlers = ocp.handlers.DefaultCheckpointHandlerRegistry()
    handlers.add("data", grain.checkpoint.CheckpointSave, CheckpointHandler())
    handlers.add("data", grain.checkpoint.CheckpointRestore, CheckpointHandler())
    with ocp.CheckpointManager(tmp_path / "c", handler_registry=handlers) as manager:
        manager.save(1, args=ocp.args.Composite(data=grain.checkpoint.CheckpointSave(iterator)))
        manager.wait_until_finished()
        fresh = iter(of_order())
        manager.restore(1, args=ocp.args.Composite(data=grain.checkpoint.CheckpointRestore(fresh)))
    assert rest(fresh) == rest(iterator)


def test_a_checkpointer_takes_the_handler_itself(tmp_path):
    iterator, fresh = iter(loader()), iter(loader())
    next(iterator)
    with ocp.Checkpointer(CheckpointHandler()) as checkpointer:
        checkpointer.save(tmp_path / "c", args=grain.checkpoint.CheckpointSave(iterator))
        checkpointer.restore(tmp_path / "c", args=grain.checkpoint.CheckpointRestore(fresh))
    assert rest(fresh) == rest(iterator)


def test_a_manager_shows_what_differs_and_lets_it_be_allowed(tmp_path):
    with ocp.CheckpointManager(tmp_path / "checkpoints") as manager:
        manager.save(1, args=grain.checkpoint.CheckpointSave(iter(grain.MapDataset.range(8))))
        manager.wait_until_finished()
        longer = iter(grain.MapDataset.range(9))
        with pytest.raises(ChangedPipelineError, match=r"\+ source: range\(0, 9\)"):
            manager.restore(1, args=grain.checkpoint.CheckpointRestore(longer))
        allowed = grain.checkpoint.CheckpointRestore(longer, allow=("source",))
        manager.restore(1, args=allowed)


def test_all_names_of_the_handler_and_its_arguments_are_the_same_objects():
    for what in ("Handler", "Save", "Restore"):
        expected = getattr(grain.checkpoint, f"Checkpoint{what}")
        for module in (grain, importlib.import_module("grain.python")):
            for prefix in ("Grain", "PyGrain"):
                assert getattr(module, f"{prefix}Checkpoint{what}") is expected
    assert grain.OrbaxCheckpointHandler is grain.checkpoint.CheckpointHandler


# --- the newer interface -------------------------------------------------------------------------


@pytest.fixture(scope="module")
def v1():
    return pytest.importorskip("orbax.checkpoint.experimental.v1")


@pytest.mark.parametrize("name", ["threads", "workers", "order", "loader"])
def test_an_iterator_looks_after_itself(tmp_path, v1, name):
    make = MAKERS[name]
    params = {"weights": jnp.arange(4.0)}
    with iter(make()) as iterator, iter(make()) as fresh:
        assert isinstance(iterator, v1.StatefulCheckpointable)
        next(iterator)
        saving = v1.save_checkpointables_async(tmp_path / "c", {"model": params, "data": iterator})
        expected = rest(iterator)
        saving.result()
        loaded = v1.load_checkpointables(tmp_path / "c", {"model": params, "data": fresh})
        assert loaded["data"] is fresh
        assert rest(fresh) == expected != []


def test_the_newer_interface_shows_what_differs_and_lets_it_be_allowed(tmp_path, v1):
    v1.save_checkpointables(tmp_path / "c", {"data": iter(grain.MapDataset.range(8))})
    longer = iter(grain.MapDataset.range(9))
    with pytest.raises(ChangedPipelineError, match=r"\+ source: range\(0, 9\)"):
        v1.load_checkpointables(tmp_path / "c", {"data": longer})
    with grain.checkpoint.allow_changes("source"):
        v1.load_checkpointables(tmp_path / "c", {"data": longer})


def test_both_interfaces_write_the_same_files(tmp_path, v1):
    iterator = iter(of_order())
    next(iterator)
    v1.save_checkpointables(tmp_path / "new", {"data": iterator})
    with ocp.CheckpointManager(tmp_path / "old") as manager:
        manager.save(1, args=ocp.args.Composite(data=grain.checkpoint.CheckpointSave(iterator)))
        manager.wait_until_finished()
    for file in ("process_0-of-1.json", "pipeline_0-of-1.txt"):
        new, old = tmp_path / "new/data" / file, tmp_path / "old/1/data" / file
        assert new.read_text() == old.read_text()
    # Which is why a folder of one is read by the other.
    fresh = CheckpointHandler().restore(tmp_path / "new/data", iter(of_order()))
    assert rest(fresh) == rest(iterator)
