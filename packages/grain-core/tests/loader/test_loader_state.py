"""The state of a loader: what it looks like, where it may come from, and what is refused."""

from __future__ import annotations

import itertools
import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import grain
from grain.sharding import NoSharding, ShardOptions

from ..helpers.pipelines import INLINE


class Source:
    """Records with a repr of its own, which a checkpoint compares."""

    def __init__(self, length: int, name: str = "records"):
        self.length, self.name = length, name

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> int:
        return index

    def __repr__(self) -> str:
        return f"Source({self.name})"


class Thrice(grain.experimental.FlatMapTransform):
    max_fan_out = 3

    def flat_map(self, element: Any) -> list[Any]:
        return [element] * (element % 4)

    def __repr__(self) -> str:
        return "Thrice()"


def loader(
    *operations: Any, length: int = 20, shard: ShardOptions | None = None, name: str = "records"
) -> grain.DataLoader:
    sampler = grain.samplers.IndexSampler(
        length, shard or NoSharding(), shuffle=True, num_epochs=2, seed=3
    )
    return grain.DataLoader(
        data_source=Source(length, name),
        sampler=sampler,
        operations=list(operations),
        read_options=INLINE,
    )


def state_of(made: grain.DataLoader, taken: int) -> dict[str, Any]:
    iterator = iter(made)
    for _ in range(taken):
        next(iterator)
    return json.loads(iterator.get_state())


def resumed(made: grain.DataLoader, fields: dict[str, Any]) -> list[Any]:
    iterator = iter(made)
    iterator.set_state(json.dumps(fields).encode())
    return list(iterator)


def test_a_state_is_readable_json_that_says_what_was_seen_last():
    fields = state_of(loader(), 3)
    assert fields["version"] == 2
    assert fields["last_seen_indices"] == {"0": 2}
    assert fields["worker_count"] == 0
    assert fields["data_source"] == "Source(records)"
    assert fields["sampler"].startswith("IndexSampler(num_records=20, ")
    assert iter(loader()).get_state().startswith(b"{\n")


@pytest.mark.parametrize("shard", [0, 1, 2])
def test_the_last_index_is_the_samplers_global_one(shard):
    made = loader(shard=ShardOptions(shard, 3))
    assert state_of(made, 0)["last_seen_indices"]["0"] < 0
    assert state_of(made, 4)["last_seen_indices"] == {"0": 3 * 3 + shard}
    assert resumed(made, state_of(made, 4)) == list(made)[4:]


@pytest.mark.parametrize(
    "operations",
    [
        (),
        (grain.transforms.Batch(3, batch_fn=list),),
        (Thrice(),),
        (Thrice(), grain.transforms.Batch(4, batch_fn=list)),
        (grain.transforms.Batch(2, batch_fn=sum), Thrice()),
        (Thrice(), Thrice()),
        (grain.python.BatchOperation(3, batch_fn=list),),
    ],
    ids=lambda operations: "-".join(type(o).__name__ for o in operations) or "none",
)
def test_a_state_resumes_after_every_element_as_json_bytes_text_and_mapping(operations):
    made = loader(*operations)
    elements = list(made)
    iterator = iter(made)
    for taken in itertools.count():
        state = iterator.get_state()
        for form in (state, state.decode(), json.loads(state), bytearray(state)):
            fresh = iter(made)
            fresh.set_state(form)
            assert list(fresh) == elements[taken:]
            break_early = taken > 6 and form is state
            if break_early:
                break
        if next(iterator, None) is None:
            break
    assert taken == len(elements)


def test_a_state_can_be_given_when_the_iterator_is_made():
    made = loader()
    first = iter(made)
    next(first)
    second = grain.DataLoaderIterator(made, first.get_state())
    assert list(second) == list(first)


def test_a_state_has_the_names_and_the_form_that_pytorch_uses():
    made = loader()
    first, second = iter(made), iter(made)
    next(first)
    saved = json.loads(json.dumps(first.state_dict()))
    second.load_state_dict(saved)
    assert list(second) == list(first)


def test_the_text_of_an_iterator_shows_its_state():
    assert '"last_seen_indices"' in str(iter(loader()))


# --- states of several workers -------------------------------------------------------------------


def workers(*last_seen: int) -> dict[str, Any]:
    return {
        "worker_count": len(last_seen),
        "last_seen_indices": {str(worker): last for worker, last in enumerate(last_seen)},
        "last_worker_index": len(last_seen) - 1,
    }


@given(count=st.integers(1, 6), taken=st.integers(0, 40), shards=st.integers(1, 3), data=st.data())
@settings(deadline=None, max_examples=40)
def test_workers_that_have_read_the_first_records_together_stand_for_one_position(
    count, taken, shards, data
):
    shard = data.draw(st.integers(0, shards - 1))
    made = loader(length=60, shard=ShardOptions(shard, shards))
    taken = min(taken, len(made))
    # Worker w reads the records w, w + count, … of this shard; a negative index: none yet.
    last_seen = [
        max(range(worker, taken, count), default=-1) * shards + shard
        if taken > worker
        else worker - count
        for worker in range(count)
    ]
    fields = state_of(made, 0) | workers(*last_seen)
    assert resumed(made, fields) == list(made)[taken:]


@pytest.mark.parametrize("last_seen", [(2, -1), (0, 3), (-2, 1), (4, 1, 2)])
def test_workers_at_positions_that_no_single_index_describes_are_refused(last_seen):
    made = loader()
    with pytest.raises(ValueError, match="No single index of shard") as caught:
        resumed(made, state_of(made, 0) | workers(*last_seen))
    assert f"'{len(last_seen) - 1}': {last_seen[-1]}" in str(caught.value)
    assert "whole number of rounds over the workers" in str(caught.value)


def test_an_index_of_another_shard_is_refused():
    made = loader(shard=ShardOptions(1, 2))
    with pytest.raises(ValueError, match="No single index of shard 1 of 2"):
        resumed(made, state_of(made, 0) | workers(4))


@pytest.mark.parametrize("taken", [0, 1, 2, 7])
def test_the_bare_position_in_a_split_record_that_google_grain_saves_is_taken(taken):
    made = loader(Thrice())
    bare = state_of(made, taken)["pipeline"]
    assert bare.keys() == {"parent", "next_index_in_buffer"}
    assert resumed(made, bare) == list(made)[taken:]


# --- what is refused -----------------------------------------------------------------------------


@pytest.mark.parametrize("field", ["last_seen_indices", "worker_count", "sampler", "data_source"])
def test_a_state_without_a_field_is_a_key_error_that_names_it(field):
    fields = state_of(loader(), 1)
    del fields[field]
    with pytest.raises(KeyError, match=f"must have the field '{field}'"):
        resumed(loader(), fields)


@pytest.mark.parametrize(
    ("state", "error", "message"),
    [
        (3, TypeError, "got 3 of type int"),
        (None, TypeError, "got None of type NoneType"),
        (b"nonsense", ValueError, "Expecting value"),
        (b"[1]", ValueError, r"must be a JSON object, got \[1\]"),
    ],
)
def test_what_is_no_state_is_refused(state, error, message):
    with pytest.raises(error, match=message):
        iter(loader()).set_state(state)


def test_what_is_no_json_is_shown():
    with pytest.raises(json.JSONDecodeError) as caught:
        iter(loader()).set_state(b"nonsense")
    assert "got b'nonsense'" in caught.value.__notes__[0]


@pytest.mark.parametrize(
    ("last_seen", "error", "message"),
    [
        (3, TypeError, "map each worker's number.*got 3"),
        ({}, KeyError, "must contain worker '0'"),
        ({"1": 3}, KeyError, "must contain worker '0'"),
        ({"0": "x"}, TypeError, "integer, got 'x'"),
        ({"0": 1.5}, TypeError, r"integer, got 1\.5"),
        ({"0": 99}, IndexError, "100 is out of range for dataset of length 40"),
    ],
)
def test_last_seen_indices_that_make_no_sense_are_refused(last_seen, error, message):
    fields = state_of(loader(), 1) | {"last_seen_indices": last_seen}
    with pytest.raises(error, match=message):
        resumed(loader(), fields)


def test_a_state_of_another_source_or_sampler_shows_both():
    with pytest.raises(ValueError, match="DataSource in checkpoint does not match") as caught:
        resumed(loader(), state_of(loader(name="others"), 1))
    assert "data source in checkpoint: Source(others)" in str(caught.value)
    assert "data source in dataloader: Source(records)" in str(caught.value)
    with pytest.raises(ValueError, match="Sampler in checkpoint does not match") as caught:
        resumed(
            loader(length=20), state_of(loader(length=21), 1) | {"data_source": "Source(records)"}
        )
    assert "num_records=21" in str(caught.value)
    assert "num_records=20" in str(caught.value)


def test_a_state_of_other_operations_is_refused_where_no_index_describes_it():
    fields = state_of(loader(Thrice()), 3)
    assert "pipeline" in fields
    with pytest.raises(KeyError, match="next_index"):
        resumed(loader(), fields)


@pytest.mark.parametrize(
    "source", [["a"] * 5, ("a",) * 5, np.zeros(5)], ids=["list", "tuple", "array"]
)
def test_the_data_of_a_list_or_an_array_is_not_written_into_the_state(source):
    made = grain.load(source, num_epochs=1, read_options=INLINE)
    state = iter(made).get_state()
    assert repr(source).encode() not in state
    assert json.loads(state)["data_source"] == repr(type(source))
