"""Saving and restoring iterators, with Orbax and without."""

from __future__ import annotations

import asyncio
import json
import pathlib
import subprocess
import sys
import textwrap
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import grain
from grain.checkpoint import ChangedPipelineError, CheckpointHandler


def dataset() -> grain.IterDataset:
    return grain.MapDataset.range(20).shuffle(1).to_iter_dataset().batch(3, batch_fn=list)


def elastic() -> Any:
    options = grain.sharding.ShardOptions(shard_index=0, shard_count=1)
    return grain.experimental.ElasticIterator(grain.MapDataset.range(20), 2, options)


def loader() -> grain.DataLoader:
    return grain.load(list(range(20)), num_epochs=1, shuffle=True, seed=2)


class OwnIterator:
    """Anything that has the two methods."""

    def __init__(self) -> None:
        self.at = 0

    def __next__(self) -> int:
        self.at += 1
        return self.at

    def get_state(self) -> Any:
        return [self.at]

    def set_state(self, state: Any) -> None:
        [self.at] = state


@pytest.mark.parametrize(
    "make",
    [lambda: iter(dataset()), lambda: iter(loader()), OwnIterator],
    ids=["dataset", "loader", "own"],
)
def test_an_iterator_is_saved_to_a_folder_and_restored(tmp_path, make):
    iterator = make()
    next(iterator)
    handler = CheckpointHandler()
    handler.save(tmp_path, iterator)
    following = [next(iterator), next(iterator)]
    fresh = make()
    assert handler.restore(tmp_path, fresh) is fresh
    assert [next(fresh), next(fresh)] == following
    # And back, in the iterator that was saved; a folder may be given as text.
    CheckpointHandler().restore(str(tmp_path), item=iterator)
    assert [next(iterator), next(iterator)] == following


def test_a_checkpoint_is_one_readable_file_for_each_process(tmp_path):
    iterator = iter(dataset())
    next(iterator)
    CheckpointHandler().save(tmp_path, iterator)
    assert sorted(file.name for file in tmp_path.iterdir()) == [
        "pipeline_0-of-1.txt",
        "process_0-of-1.json",
    ]
    assert (tmp_path / "process_0-of-1.json").read_text() == '{\n    "next_index": 3\n}'
    assert (tmp_path / "pipeline_0-of-1.txt").read_text().splitlines()[1:] == [
        "source: range(0, 20)",
        "operation: shuffle(seed=1)",
        "operation: batch(batch_size=3, batch_fn=list)",
    ]


def test_saving_again_replaces_what_was_saved(tmp_path):
    iterator = iter(dataset())
    handler = CheckpointHandler()
    for _ in range(2):
        next(iterator)
        handler.save(tmp_path, iterator)
    assert json.loads((tmp_path / "process_0-of-1.json").read_text()) == {"next_index": 6}


def test_a_process_that_is_killed_while_it_saves_leaves_what_was_there(tmp_path, monkeypatch):
    iterator = iter(dataset())
    CheckpointHandler().save(tmp_path, iterator)
    files = ("process_0-of-1.json", "pipeline_0-of-1.txt")
    before = [(tmp_path / file).read_text() for file in files]

    def half(path, text):
        with path.open("w") as file:
            file.write(text[: len(text) // 2])
        raise KeyboardInterrupt

    monkeypatch.setattr(pathlib.Path, "write_text", half)
    next(iterator)
    with pytest.raises(KeyboardInterrupt):
        CheckpointHandler().save(tmp_path, iterator)
    assert [(tmp_path / file).read_text() for file in files] == before
    monkeypatch.undo()
    CheckpointHandler().save(tmp_path, iterator)
    assert CheckpointHandler().restore(tmp_path, iter(dataset())).get_state() == {"next_index": 3}


def test_an_iterator_of_another_kind_leaves_no_description_of_the_one_before(tmp_path):
    CheckpointHandler().save(tmp_path, iter(dataset()))
    CheckpointHandler().save(tmp_path, OwnIterator())
    assert [file.name for file in tmp_path.iterdir()] == ["process_0-of-1.json"]
    CheckpointHandler().restore(tmp_path, OwnIterator())


def test_a_folder_without_a_checkpoint_says_where_it_was_looked_for(tmp_path):
    with pytest.raises(ValueError, match=r"no state of this process at .*process_0-of-1\.json"):
        CheckpointHandler().restore(tmp_path, iter(dataset()))


@pytest.mark.parametrize("make", [dataset, elastic], ids=["dataset", "elastic"])
@pytest.mark.parametrize("text", ["", '{"next_ind', "garbage"])
def test_a_damaged_checkpoint_is_named_and_changes_nothing(tmp_path, make, text):
    iterator = iter(make())
    next(iterator)
    before = iterator.get_state()
    CheckpointHandler().save(tmp_path, iterator)
    (tmp_path / "process_0-of-1.json").write_text(text)
    with pytest.raises(ValueError, match=f"{tmp_path}.* is damaged.*Restore an earlier checkpoint"):
        CheckpointHandler().restore(tmp_path, iterator)
    assert iterator.get_state() == before


STATES_THAT_DO_NOT_FIT = [
    b"",
    b'{"next_ind',
    b'{"version": 2,',
    b"\xff\x00",
    b"[" * 100_000,
    b"null",
    b"[]",
    b'{"foo": 1}',
    b'{"next_index": ' + b"9" * 5000 + b"}",
]


@pytest.mark.parametrize("make", [dataset, elastic, loader], ids=["dataset", "elastic", "loader"])
@pytest.mark.parametrize("content", STATES_THAT_DO_NOT_FIT, ids=lambda content: str(content[:20]))
def test_every_error_of_a_state_names_its_file_and_what_to_do(tmp_path, make, content):
    iterator = iter(make())
    next(iterator)
    before = iterator.get_state()
    CheckpointHandler().save(tmp_path, iterator)
    (tmp_path / "process_0-of-1.json").write_bytes(content)
    for restore in (
        lambda: CheckpointHandler().restore(tmp_path, iterator),
        lambda: asyncio.run(load(iterator, tmp_path)),
    ):
        with pytest.raises((ValueError, KeyError, TypeError, RecursionError)) as caught:
            restore()
        shown = full_text(caught.value)
        assert str(tmp_path) in shown
        assert make is elastic or "process_0-of-1.json" in shown
        assert "restore an earlier checkpoint" in shown.lower()
        assert len(shown) < 20_000
        assert iterator.get_state() == before


async def load(iterator: Any, folder: pathlib.Path) -> None:
    await (await iterator.load(folder))


def full_text(error: BaseException) -> str:
    return "\n".join([str(error), *getattr(error, "__notes__", [])])


@pytest.mark.parametrize("make", [dataset, elastic, loader], ids=["dataset", "elastic", "loader"])
@pytest.mark.parametrize(
    "content", [b"\xff\xfe\x00garbage", b"garbage\n", b"source: other\n"], ids=str
)
def test_every_error_of_a_fingerprint_names_its_file_and_what_to_do(tmp_path, make, content):
    iterator = iter(make())
    CheckpointHandler().save(tmp_path, iterator)
    (tmp_path / "pipeline_0-of-1.txt").write_bytes(content)
    for restore in (
        lambda: CheckpointHandler().restore(tmp_path, iterator),
        lambda: asyncio.run(load(iterator, tmp_path)),
    ):
        with pytest.raises(ValueError, match=r"damaged|kind: text|differs") as caught:
            restore()
        shown = full_text(caught.value)
        assert str(tmp_path / "pipeline_0-of-1.txt") in shown
        assert "restore an earlier checkpoint" in shown.lower()


def test_concurrent_saves_into_one_folder_leave_a_whole_checkpoint(tmp_path):
    iterators = [iter(dataset()) for _ in range(4)]
    for count, iterator in enumerate(iterators):
        for _ in range(count):
            next(iterator)
    start = threading.Barrier(len(iterators))

    def save(iterator):
        start.wait()
        for _ in range(25):
            CheckpointHandler().save(tmp_path, iterator)

    with ThreadPoolExecutor(len(iterators)) as threads:
        list(threads.map(save, iterators))
    assert len(list(tmp_path.iterdir())) == 2
    restored = CheckpointHandler().restore(tmp_path, iter(dataset())).get_state()
    assert restored in [iterator.get_state() for iterator in iterators]


def test_a_checkpoint_of_another_iterator_is_refused(tmp_path):
    CheckpointHandler().save(tmp_path, iter(loader()))
    with pytest.raises(ChangedPipelineError, match="sampler"):
        CheckpointHandler().restore(tmp_path, iter(dataset()))


def test_arguments_may_be_given_as_one_object(tmp_path):
    class Arguments:
        def __init__(self, item: Any):
            self.item = item

    iterator = iter(dataset())
    next(iterator)
    CheckpointHandler().save(tmp_path, args=Arguments(iterator))
    fresh = iter(dataset())
    assert CheckpointHandler().restore(tmp_path, args=Arguments(fresh)) is fresh
    assert list(fresh) == list(iterator)


class Both(grain.IterDataset, grain.DatasetIterator):
    """A dataset that is its own iterator."""

    def __init__(self, size: int) -> None:
        grain.IterDataset.__init__(self)
        self.size = size
        self.at = 0

    def __iter__(self) -> Any:
        return self

    def __next__(self) -> int:
        if self.at == self.size:
            raise StopIteration
        self.at += 1
        return self.at

    def get_state(self) -> Any:
        return {"at": self.at}

    def set_state(self, state: Any) -> None:
        self.at = state["at"]

    def __str__(self) -> str:
        return f"Both(size={self.size})"


class FromGenerator(grain.IterDataset):
    """Its iterator is none of this library's, and cannot be saved."""

    def __iter__(self) -> Any:
        yield from (1, 2)


def test_a_dataset_that_is_its_own_iterator_is_described_and_dropped_at_once(tmp_path):
    both = Both(3)
    assert next(iter(both)) == 1
    CheckpointHandler().save(tmp_path, both)
    fresh = CheckpointHandler().restore(tmp_path, iter(Both(3)))
    assert list(fresh) == [2, 3]
    with pytest.raises(ChangedPipelineError, match=r"\+ source: Both\(size=4\)"):
        CheckpointHandler().restore(tmp_path, Both(4))
    gone = weakref.ref(fresh)
    del fresh
    assert gone() is None


def test_a_generator_may_be_the_iterator_of_a_dataset():
    assert list(FromGenerator()) == [1, 2]


def test_an_elastic_iterator_is_restored_from_any_number_of_processes(tmp_path):
    def elastic(index, count, seed=1):
        ds = grain.MapDataset.range(24).shuffle(seed=seed)
        shard = grain.sharding.ShardOptions(index, count)
        return grain.experimental.ElasticIterator(ds, 4, shard)

    hosts = [elastic(index, 2) for index in range(2)]
    for index, host in enumerate(hosts):
        next(host)
        CheckpointHandler().save(tmp_path, host)
        for kind, ending in (("process", "json"), ("pipeline", "txt")):
            file = tmp_path / f"{kind}_0-of-1.{ending}"
            file.rename(tmp_path / f"{kind}_{index}-of-2.{ending}")
    alone = elastic(0, 1)
    assert CheckpointHandler().restore(tmp_path, alone) is alone
    following = [next(host).tolist() for host in hosts]
    assert next(alone).tolist() == [x for pair in zip(*following, strict=True) for x in pair]
    with pytest.raises(ChangedPipelineError, match=r"\+ operation: shuffle\(seed=2\)"):
        CheckpointHandler().restore(tmp_path, elastic(0, 1, seed=2))


def test_there_is_nothing_else_to_a_handler(tmp_path):
    handler = CheckpointHandler()
    assert handler.structure(tmp_path) is None
    assert handler.metadata(tmp_path) is None
    assert handler.finalize(tmp_path) is None
    assert handler.close() is None
    assert handler.typestr() == "grain.checkpoint.handler.CheckpointHandler"


def test_the_handler_is_known_by_its_older_names():
    for name in ("GrainCheckpointHandler", "PyGrainCheckpointHandler", "OrbaxCheckpointHandler"):
        assert getattr(grain, name) is CheckpointHandler
        assert getattr(grain.python, name) is CheckpointHandler


def test_without_orbax_its_arguments_say_what_to_install():
    program = """
        import sys
        sys.modules["orbax"] = sys.modules["orbax.checkpoint"] = None  # As if not installed.
        import grain
        grain.checkpoint.CheckpointHandler()
        for module, name in [
            (grain.checkpoint, "CheckpointSave"),
            (grain.checkpoint, "CheckpointRestore"),
            (grain, "GrainCheckpointSave"),
            (grain.python, "PyGrainCheckpointRestore"),
        ]:
            try:
                getattr(module, name)
            except AttributeError as error:
                assert "pip install orbax-checkpoint" in str(error), error
                assert "orbax-checkpoint" in str(error), error
            else:
                raise AssertionError(name)
            assert not hasattr(module, name)
        from grain.checkpoint import *
        CheckpointHandler, allow_changes
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(program)], check=True, timeout=60)


def test_importing_all_of_the_module_brings_what_orbax_offers_where_it_is():
    program = "from grain.checkpoint import *; CheckpointHandler, CheckpointSave, CheckpointRestore"
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


def test_neither_jax_nor_orbax_is_needed_or_loaded_to_save_and_restore():
    program = """
        import sys, tempfile
        import grain
        iterator = iter(grain.load(list(range(9)), shuffle=True, seed=1))
        next(iterator)
        with tempfile.TemporaryDirectory() as folder:
            grain.checkpoint.CheckpointHandler().save(folder, iterator)
            fresh = iter(grain.load(list(range(9)), shuffle=True, seed=1))
            grain.checkpoint.CheckpointHandler().restore(folder, fresh)
        assert next(fresh) == next(iterator)
        loaded = {"jax", "orbax"} & set(sys.modules)
        assert not loaded, loaded
        sys.modules["jax"] = None  # As if not installed.
        with tempfile.TemporaryDirectory() as folder:
            grain.checkpoint.CheckpointHandler().save(folder, iterator)
            grain.checkpoint.CheckpointHandler().restore(folder, fresh)
        assert next(fresh) == next(iterator)
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(program)], check=True, timeout=60)


def test_orbax_saves_and_restores_iterators(tmp_path):
    ocp = pytest.importorskip("orbax.checkpoint")
    iterator, other = iter(dataset()), iter(loader())
    next(iterator), next(other)
    with ocp.CheckpointManager(tmp_path / "checkpoints") as manager:
        manager.save(
            7,
            args=ocp.args.Composite(
                dataset=grain.checkpoint.CheckpointSave(iterator),
                loader=grain.checkpoint.CheckpointSave(other),
            ),
        )
        manager.wait_until_finished()
        fresh, fresh_other = iter(dataset()), iter(loader())
        restored = manager.restore(
            7,
            args=ocp.args.Composite(
                dataset=grain.checkpoint.CheckpointRestore(fresh),
                loader=grain.checkpoint.CheckpointRestore(fresh_other),
            ),
        )
    assert restored["dataset"] is fresh
    assert list(fresh) == list(iterator)
    assert list(fresh_other) == list(other)
