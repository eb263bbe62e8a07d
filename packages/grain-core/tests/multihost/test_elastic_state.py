"""States of the hosts of a job: how they become one, and what is said when they cannot."""

from __future__ import annotations

import asyncio
import json
import pathlib
from typing import Any

import numpy as np
import pytest

import grain
from grain.checkpoint import ChangedPipelineError, CheckpointHandler, allow_changes
from grain.experimental import ElasticIterator
from grain.sharding import ShardOptions

from .pipelines import INLINE, Hosts, is_kept, numbers, packed, stream, whole


def at(position: int, **more: Any) -> dict[str, Any]:
    return {"global_next_index": position, **more}


def test_equal_states_of_all_hosts_are_one_state() -> None:
    state = at(8, stream={"next_index": 12})
    copies = [json.loads(json.dumps(state)) for _ in range(3)]
    assert ElasticIterator.merge_states(copies) == state
    assert ElasticIterator.merge_states(tuple(copies), host_count=3) == state
    assert ElasticIterator.merge_states(dict(enumerate(copies)), host_count=3) == state
    # A tuple in a state is a list once it was in a file.
    assert ElasticIterator.merge_states([at(1, stream=(2, 3)), at(1, stream=[2, 3])])


def test_how_an_interleaved_dataset_ended_does_not_matter() -> None:
    def state(ended: int, at_end: Any, other: int = 4) -> dict[str, Any]:
        turns = {
            "iterators_in_use_states": [at_end, {"next_index": other}],
            "exhausted": [ended, 0],
        }
        return at(8, stream={"parent": turns, "counter": 1})

    seen, not_seen = {"index": 5, "stop": True}, {"index": 4, "stop": False}
    assert ElasticIterator.merge_states([state(1, seen), state(1, not_seen)]) == state(1, seen)
    for different in (state(0, not_seen), state(1, seen, other=5)):
        with pytest.raises(ValueError, match="states differ"):
            ElasticIterator.merge_states([state(1, seen), different])


@pytest.mark.parametrize(
    ("states", "count", "error", "said"),
    [
        ([], None, ValueError, ["at least one host", "got none"]),
        ([at(8), None, at(8), None], None, ValueError, ["Of 4 hosts", "hosts 1, 3 are missing"]),
        ([at(8), at(8)], 3, ValueError, ["Of 3 hosts", "host 2 are missing"]),
        ({0: at(8), 1: at(8)}, None, ValueError, ["hosts 0, 1", "host_count"]),
        ({0: at(8), 2: at(8)}, 2, ValueError, ["given for host 2", "0 to 1"]),
        ({0: at(8), -1: at(8)}, 2, ValueError, ["given for host -1", "0 to 1"]),
        ({0: at(8), "1": at(8)}, 2, ValueError, ["given for host 1", "0 to 1"]),
        ([at(8), at(8), at(8)], 2, ValueError, ["given for host 2", "0 to 1"]),
        ([at(8)], 0, ValueError, ["host_count must be positive, got 0"]),
        (at(8), None, TypeError, ["states of all hosts", "got one state"]),
        ("states", None, TypeError, ["sequence of states", "'states' of type str"]),
        (
            [at(8), at(12), at(8), at(4)],
            None,
            ValueError,
            ["host 3 at 4; hosts 0, 2 at 8; host 1 at 12", "after the same step"],
        ),
        (
            [at(8, stream={"next_index": 9}), at(8, stream={"next_index": 10})],
            None,
            ValueError,
            ["Hosts 0 and 1", "state['stream']['next_index']: 9 and 10", "same stream"],
        ),
        (
            [{"parent": at(8), "bins": [1, 2]}, {"parent": at(8), "bins": [1, 3]}],
            None,
            ValueError,
            ["state['bins'][1]: 2 and 3", "before the ElasticIterator"],
        ),
        ([at(8), {"next_index": 4}], None, ValueError, ["host 1", "'global_next_index'"]),
        ([{"next_index": 4}], None, ValueError, ["same shard index", "ElasticIterator"]),
        ([b"{}"], None, ValueError, ["not that of an ElasticIterator", "b'{}'"]),
        ([at(-8)], None, ValueError, ["global_next_index must be non-negative, got -8"]),
        ([at("8")], None, TypeError, ["global_next_index must be an integer, got '8'"]),
    ],
    ids=lambda value: None,
)
def test_states_that_are_not_one_are_refused_with_what_was_given_and_what_to_do(
    states: Any, count: int | None, error: type[Exception], said: list[str]
) -> None:
    with pytest.raises(error) as raised:
        ElasticIterator.merge_states(states, host_count=count)
    for part in said:
        assert part in str(raised.value)


def test_a_message_does_not_list_a_thousand_hosts() -> None:
    with pytest.raises(ValueError, match="hosts 0, 1, 2, 3, 4, 5, 6, 7 and 991 more are missing"):
        ElasticIterator.merge_states([None] * 999 + [at(8)])


def test_hosts_of_which_some_are_ahead_are_noticed() -> None:
    hosts = Hosts(lambda: stream(20).filter(is_kept), 4, 2)
    hosts.rows(limit=1)
    next(hosts.iterators[1])
    with pytest.raises(ValueError, match="host 0 at 4; host 1 at 8"):
        hosts.saved()


def test_hosts_that_read_different_streams_are_noticed() -> None:
    seeds = iter([1, 2])
    hosts = Hosts(lambda: numbers(40).shuffle(seed=next(seeds)).filter(is_kept), 4, 2)
    hosts.rows(limit=3)
    with pytest.raises(ValueError, match="did not read the same stream"):
        hosts.saved()


def test_packing_behind_an_elastic_iterator_cannot_resume_with_other_hosts() -> None:
    def document(batch: Any) -> Any:
        return {"x": np.full(batch["x"][0] % 2 + 1, batch["x"][0])}

    hosts = Hosts(lambda: numbers(40), 2, 2)
    packs = [
        iter(iterator.map(document).pack({"x": 3}, num_packing_bins=1))
        for iterator in hosts.iterators
    ]
    for pack in packs:
        next(pack)
    with pytest.raises(ValueError, match="put it before the ElasticIterator"):
        ElasticIterator.merge_states([pack.get_state() for pack in packs])


# What is read into a pipeline of another kind


def test_a_state_of_another_kind_of_pipeline_is_refused_and_changes_nothing() -> None:
    (indexed,), (streamed,) = (
        Hosts(make, 4, 1).iterators for make in (lambda: numbers(20), lambda: stream(20))
    )
    next(indexed), next(streamed)
    states = indexed.get_state(), streamed.get_state()
    with pytest.raises(ValueError, match="read in order"):
        indexed.set_state(states[1])
    with pytest.raises(ValueError, match="which is read by index"):
        streamed.set_state(states[0])
    for iterator in (indexed, streamed):
        with pytest.raises(KeyError, match="global_next_index"):
            iterator.set_state({"next_index": 3})
        with pytest.raises(TypeError, match="global_next_index"):
            iterator.set_state(3)
        with pytest.raises(ValueError, match="non-negative, got -1"):
            iterator.set_state(at(-1, **({} if iterator is indexed else {"stream": {}})))
    with pytest.raises(IndexError, match="21 is out of range for dataset of length 20"):
        indexed.set_state(at(21))
    assert (indexed.get_state(), streamed.get_state()) == states
    assert [b["x"].tolist() for b in indexed] == [list(range(i, i + 4)) for i in (5, 9, 13, 17)]
    assert len(list(streamed)) == 4


@pytest.mark.parametrize(
    ("make", "error", "said"),
    [
        (lambda: ShardOptions(4, 4), ValueError, "shard_count was 4 and shard_index was 4"),
        (lambda: ShardOptions(-1, 4), ValueError, "shard_index was -1"),
        (lambda: ShardOptions(0, 0), ValueError, "positive integer but got 0"),
        (
            lambda: ElasticIterator(numbers(9), 10, ShardOptions(0, 4)),
            ValueError,
            "10 is not divisible by shard count 4.*multiple of 4, such as 12",
        ),
        (lambda: ElasticIterator(numbers(9), 4, (0, 2)), TypeError, r"ShardOptions, got \(0, 2\)"),
        (
            lambda: ElasticIterator(numbers(9), 4, ShardOptions(0, 2), remainder="fill"),
            ValueError,
            "one of 'drop', 'keep', 'pad', 'wrap', got 'fill'",
        ),
        (
            lambda: ElasticIterator(numbers(9), 4, ShardOptions(0, 2), batch_fn=3),
            TypeError,
            "batch_fn must be a function",
        ),
        (
            lambda: ElasticIterator(
                ElasticIterator(numbers(9), 4, ShardOptions(0, 2)).map(len), 4, ShardOptions(0, 2)
            ),
            ValueError,
            "share of one shard already",
        ),
        (
            lambda: next(
                ElasticIterator(
                    grain.MapDataset.range(9).filter(bool), 4, ShardOptions(0, 2), remainder="pad"
                )
            ),
            TypeError,
            "Padding needs elements that are dictionaries",
        ),
    ],
    ids=lambda value: None,
)
def test_wrong_use_is_an_error_that_shows_what_was_given(
    make: Any, error: type[Exception], said: str
) -> None:
    with pytest.raises(error, match=said):
        make()


# Folders


def save(iterator: Any, folder: pathlib.Path, index: int, count: int) -> None:
    """As one of several processes writes it."""
    CheckpointHandler().save(folder, iterator)
    for file in list(folder.glob("*_0-of-1.*")):
        file.rename(file.with_name(file.name.replace("_0-of-1", f"_{index}-of-{count}")))


@pytest.mark.parametrize(
    "make", [lambda: numbers(30), lambda: packed(30, "first_fit")], ids=["index", "packed"]
)
def test_a_folder_that_three_processes_wrote_is_read_by_one(
    make: Any, tmp_path: pathlib.Path
) -> None:
    hosts = Hosts(make, 6, 3, remainder="keep")
    given = hosts.rows(limit=1)
    for index, iterator in enumerate(hosts.iterators):
        save(iterator, tmp_path, index, 3)
    assert len(list(tmp_path.iterdir())) == 6  # Descriptions of the pipeline are there too.
    for load in (
        lambda it: it.set_state(ElasticIterator.read_state(tmp_path)),
        lambda it: it.set_state(ElasticIterator.read_state(str(tmp_path))),
        lambda it: asyncio.run(load_from(it, tmp_path)),
        lambda it: asyncio.run(load_from(iter(it), tmp_path)),
        lambda it: CheckpointHandler().restore(tmp_path, it),
        lambda it: CheckpointHandler().restore(tmp_path, iter(it)),
    ):
        alone = Hosts(make, 6, 1, remainder="keep")
        load(alone.iterators[0])
        assert given + alone.rows() == whole(make())


async def load_from(iterator: Any, folder: pathlib.Path) -> None:
    await (await iterator.load(folder))


def test_a_folder_of_another_pipeline_is_refused_unless_that_is_meant(
    tmp_path: pathlib.Path,
) -> None:
    two = Hosts(lambda: numbers(24), 4, 2)
    two.rows(limit=1)
    for index, iterator in enumerate(two.iterators):
        save(iterator, tmp_path, index, 2)
    (larger,) = Hosts(lambda: numbers(24), 8, 1).iterators
    with pytest.raises(
        ChangedPipelineError, match=r"global_batch_size=4(?s:.*)global_batch_size=8"
    ):
        asyncio.run(load_from(larger, tmp_path))
    assert larger.get_state() == at(0)
    with allow_changes("operation"):
        asyncio.run(load_from(larger, tmp_path))
    assert next(larger)["x"].tolist() == [*range(5, 13)]


def test_an_elastic_iterator_saves_itself(tmp_path: pathlib.Path) -> None:
    async def saved(iterator: Any) -> None:
        await (await iterator.save(tmp_path))

    (iterator,) = Hosts(lambda: numbers(12), 4, 1).iterators
    next(iterator)
    asyncio.run(saved(iterator))
    assert ElasticIterator.read_state(tmp_path) == at(4)


def test_a_folder_without_all_states_of_one_job_is_refused(tmp_path: pathlib.Path) -> None:
    (iterator,) = Hosts(lambda: numbers(12), 4, 1).iterators
    for folder in (tmp_path, tmp_path / "absent"):
        with pytest.raises(ValueError, match="There is no state of an iterator in"):
            ElasticIterator.read_state(folder)
    save(iterator, tmp_path, 2, 4)
    with pytest.raises(ValueError, match="Of 4 hosts the states of hosts 0, 1, 3 are missing"):
        ElasticIterator.read_state(tmp_path)
    save(iterator, tmp_path, 0, 2)
    with pytest.raises(ValueError, match=r"jobs of 2 and of 4 hosts.*separate folder"):
        ElasticIterator.read_state(tmp_path)


def test_a_per_shard_state_says_why_it_cannot_be_divided_again(
    tmp_path: pathlib.Path,
) -> None:
    for index in range(2):
        own = iter(numbers(12)[index::2].to_iter_dataset(INLINE))
        next(own)
        save(own, tmp_path, index, 2)
    with pytest.raises(ValueError, match=r"not that of an ElasticIterator.*same shard index"):
        ElasticIterator.read_state(tmp_path)


def test_orbax_restores_what_another_number_of_processes_saved(tmp_path: pathlib.Path) -> None:
    ocp = pytest.importorskip("orbax.checkpoint")

    def make() -> Any:
        return packed(30, "best_fit")

    two, one = (Hosts(make, 4, count, remainder="keep") for count in (2, 1))
    given = two.rows(limit=2)
    with ocp.CheckpointManager(tmp_path) as manager:
        manager.save(2, args=grain.checkpoint.CheckpointSave(two.iterators[0]))
        manager.wait_until_finished()
        # This test is one process; so the other one's files are laid beside its own here.
        for file in list(tmp_path.glob("2/**/*_0-of-1.*")):
            text = file.read_text()
            file.unlink()
            for index in range(2):
                file.with_name(file.name.replace("0-of-1", f"{index}-of-2")).write_text(text)
        manager.restore(2, args=grain.checkpoint.CheckpointRestore(one.iterators[0]))
    assert given + one.rows() == whole(make())
