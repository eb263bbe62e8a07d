"""Packing keeps every token once, in order, within its limits."""

from __future__ import annotations

import json
import pickle
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import grain
from grain.experimental import (
    BestFitPackIterDataset,
    BOSHandling,
    ConcatThenSplitIterDataset,
    FirstFitPackIterDataset,
)

from ...helpers.pipelines import INLINE

BINNERS = [FirstFitPackIterDataset, BestFitPackIterDataset]


def documents(lengths: list[int], dtype: Any = np.int32) -> list[dict[str, Any]]:
    """Documents whose tokens are all different and never 0."""
    made, first = [], 1
    for number, length in enumerate(lengths):
        tokens = np.arange(first, first + length, dtype=dtype)
        made.append({"tokens": tokens, "weights": tokens / 2, "name": f"doc{number}"})
        first += length
    return made


def parent(elements: list[Any]) -> grain.IterDataset:
    return grain.MapDataset.source(elements).to_iter_dataset(INLINE)


def segments_of(row: dict[str, Any], feature: str = "tokens") -> list[list[Any]]:
    """The sequences of a packed row, in the order of their segment ids."""
    ids, cells = row[f"{feature}_segment_ids"], row[feature]
    return [cells[ids == number].tolist() for number in range(1, ids.max(initial=0) + 1)]


class Tokens:
    """Options for packing documents with two features and a name."""

    lengths = st.lists(st.integers(1, 8), max_size=40)
    options = st.fixed_dictionaries(
        {
            "num_packing_bins": st.integers(1, 6),
            "shuffle_bins": st.booleans(),
            "seed": st.integers(0, 2**32),
        },
        optional={
            "max_sequences_per_bin": st.integers(1, 4),
            "pack_alignment_struct": st.fixed_dictionaries(
                {"tokens": st.integers(1, 5), "weights": st.integers(1, 5)}
            ),
            "padding_struct": st.just({"tokens": -1, "weights": 0.25}),
            "shuffle_bins_group_by_feature": st.just("tokens"),
        },
    )


@pytest.mark.parametrize("binner", BINNERS)
@settings(deadline=None, max_examples=60)
@given(lengths=Tokens.lengths, options=Tokens.options, room=st.integers(8, 16))
def test_bins_hold_every_sequence_once_and_whole(
    binner: Any, lengths: list[int], options: dict[str, Any], room: int
) -> None:
    docs = documents(lengths)
    rows = list(
        binner(
            parent(docs),
            length_struct={"tokens": room, "weights": room + 3},
            meta_features=("name",),
            **options,
        )
    )
    found = [tuple(segment) for row in rows for segment in segments_of(row)]
    assert sorted(found) == sorted(tuple(doc["tokens"].tolist()) for doc in docs)
    weights = [tuple(segment) for row in rows for segment in segments_of(row, "weights")]
    assert weights == [tuple(token / 2 for token in segment) for segment in found]
    by_name = {doc["name"]: tuple(doc["tokens"].tolist()) for doc in docs}
    assert [by_name[name] for row in rows for name in row["name"]] == found


@pytest.mark.parametrize("binner", BINNERS)
@settings(deadline=None, max_examples=60)
@given(lengths=Tokens.lengths, options=Tokens.options, room=st.integers(8, 16))
def test_bins_respect_alignment_limits_padding_and_positions(
    binner: Any, lengths: list[int], options: dict[str, Any], room: int
) -> None:
    rows = list(
        binner(
            parent(documents(lengths)),
            length_struct={"tokens": room, "weights": room},
            meta_features=("name",),
            **options,
        )
    )
    padding = options.get("padding_struct", {"tokens": 0})["tokens"]
    alignment = options.get("pack_alignment_struct", {"tokens": 1})["tokens"]
    for row in rows:
        ids, positions = row["tokens_segment_ids"], row["tokens_positions"]
        assert row["tokens"].shape == ids.shape == positions.shape == (room,)
        assert ids.dtype == positions.dtype == np.int32
        assert 1 <= ids.max() <= options.get("max_sequences_per_bin", room)
        assert len(row["name"]) == ids.max()
        for number in range(1, ids.max() + 1):
            cells = np.flatnonzero(ids == number)
            assert cells[0] % alignment == 0
            assert (np.diff(cells) == 1).all()
            assert positions[cells].tolist() == list(range(len(cells)))
        assert (row["tokens"][ids == 0] == padding).all()
        assert (positions[ids == 0] == 0).all()


@pytest.mark.parametrize("binner", BINNERS)
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"shuffle_bins": False},
        {"max_sequences_per_bin": 2, "seed": 3},
        {"shuffle_bins_group_by_feature": "tokens"},
        {"pack_alignment_struct": {"tokens": 3}},
    ],
    ids=["plain", "in_order", "limited", "grouped", "aligned"],
)
def test_bins_resume_at_every_step(
    binner: Any, options: dict[str, Any], parent_of: Callable[..., Any], resumes: Callable[..., Any]
) -> None:
    docs = [
        {"tokens": doc["tokens"], "name": doc["name"]}
        for doc in documents([3, 8, 1, 5, 5, 2, 7, 7, 1, 1, 4, 6])
    ]
    elements = resumes(
        lambda: binner(
            parent_of(docs),
            length_struct={"tokens": 9},
            meta_features=("name",),
            num_packing_bins=3,
            **options,
        )
    )
    assert len(elements) >= 5


@pytest.mark.parametrize("binner", BINNERS)
def test_an_element_goes_to_the_first_or_the_fullest_bin(binner: Any) -> None:
    docs = documents([5, 8, 2])
    ds = binner(
        parent([{"tokens": doc["tokens"]} for doc in docs]),
        length_struct={"tokens": 10},
        num_packing_bins=2,
        shuffle_bins=False,
    )
    sizes = [[len(segment) for segment in segments_of(row)] for row in ds]
    assert sizes == ([[5, 2], [8]] if binner is FirstFitPackIterDataset else [[5], [8, 2]])


def test_bins_are_read_with_a_pickled_dataset_like_with_the_first() -> None:
    ds = FirstFitPackIterDataset(
        parent([{"tokens": doc["tokens"]} for doc in documents([2, 3, 4])]),
        length_struct={"tokens": 5},
        num_packing_bins=2,
    )
    again = pickle.loads(pickle.dumps(ds))
    assert [row["tokens"].tolist() for row in again] == [row["tokens"].tolist() for row in ds]


@pytest.mark.parametrize("binner", BINNERS)
def test_a_sequence_that_is_too_long_is_an_error_and_the_others_stay(binner: Any) -> None:
    docs = [{"tokens": doc["tokens"]} for doc in documents([2, 5, 1])]
    iterator = iter(binner(parent(docs), length_struct={"tokens": 3}, num_packing_bins=2))
    with pytest.raises(ValueError, match=r"\(\('tokens',\), 5, 3\)"):
        next(iterator)
    assert [segments_of(row) for row in iterator] == [[[1, 2], [8]]]


def test_a_sequence_of_another_shape_is_an_error_and_leaves_nothing_behind() -> None:
    docs = [
        {"a": np.ones(2), "b": np.ones((2, 3))},
        {"a": np.ones(1), "b": np.ones((1, 4))},
        {"a": np.full(1, 7.0), "b": np.full((1, 3), 7.0)},
    ]
    iterator = iter(
        FirstFitPackIterDataset(parent(docs), length_struct={"a": 4, "b": 4}, num_packing_bins=1)
    )
    with pytest.raises(ValueError, match=r"'b'.*\(4, 3\)"):
        next(iterator)
    (row,) = list(iterator)
    assert row["a"].tolist() == [1, 1, 7, 0]
    assert row["a_segment_ids"].tolist() == row["b_segment_ids"].tolist() == [1, 1, 2, 0]


def test_text_of_several_widths_is_not_cut() -> None:
    docs = [{"words": np.array(["a", "bc"])}, {"words": np.array(["defg"])}]
    (row,) = FirstFitPackIterDataset(parent(docs), length_struct={"words": 4}, num_packing_bins=1)
    assert row["words"].tolist() == ["a", "bc", "defg", ""]


def test_meta_features_may_be_nested_and_have_no_segments() -> None:
    docs = [{"x": np.array([1]), "meta": {"id": np.array([n])}} for n in (5, 6)]
    (row,) = FirstFitPackIterDataset(
        parent(docs),
        length_struct={"x": 3, "meta": {"id": 2}},
        num_packing_bins=1,
        meta_features=("meta",),
    )
    assert row["meta"]["id"].tolist() == [5, 6]
    assert set(row) == {"x", "x_segment_ids", "x_positions", "meta"}


def test_no_elements_make_no_bins() -> None:
    ds = FirstFitPackIterDataset(parent([]), length_struct={"x": 3}, num_packing_bins=2)
    assert list(ds) == []


@pytest.mark.parametrize("binner", BINNERS)
@pytest.mark.parametrize(
    ("wrong", "error", "message"),
    [
        ({"length_struct": 4}, TypeError, "dictionary"),
        ({"length_struct": {}}, ValueError, "at least one feature"),
        ({"length_struct": {"x": "4"}}, TypeError, "length_struct"),
        ({"length_struct": {"x": -1}}, ValueError, "non-negative"),
        ({"length_struct": {"x": {"y": 4}}}, ValueError, "meta feature"),
        ({"num_packing_bins": 0}, ValueError, "num_packing_bins"),
        ({"num_packing_bins": 2.5}, TypeError, "num_packing_bins"),
        ({"seed": -1}, ValueError, "seed"),
        ({"seed": None}, TypeError, "seed"),
        ({"max_sequences_per_bin": 0}, ValueError, "max_sequences_per_bin"),
        ({"meta_features": "x"}, TypeError, "meta_features"),
        ({"shuffle_bins_group_by_feature": "y"}, KeyError, "'y'"),
        ({"pack_alignment_struct": {"y": 2}}, ValueError, "pack_alignment_struct"),
        ({"pack_alignment_struct": {"x": 0}}, ValueError, "pack_alignment_struct"),
        ({"padding_struct": {}}, ValueError, "padding_struct"),
    ],
)
def test_wrong_options_are_refused_when_the_dataset_is_built(
    binner: Any, wrong: dict[str, Any], error: type[Exception], message: str
) -> None:
    options = {"length_struct": {"x": 4}, "num_packing_bins": 2} | wrong
    with pytest.raises(error, match=message):
        binner(parent([]), **options)


def test_an_element_without_a_feature_is_an_error_that_names_both() -> None:
    ds = FirstFitPackIterDataset(
        parent([{"y": np.ones(1)}]), length_struct={"x": 3}, num_packing_bins=1
    )
    with pytest.raises(KeyError, match=r"'x'.*'y'"):
        next(iter(ds))


# Concat then split


@settings(deadline=None, max_examples=100)
@given(lengths=st.lists(st.integers(0, 25), max_size=30), room=st.integers(1, 12))
def test_joined_rows_hold_the_whole_stream_in_order(lengths: list[int], room: int) -> None:
    docs = [{"tokens": doc["tokens"]} for doc in documents(lengths)]
    rows = list(ConcatThenSplitIterDataset(parent(docs), length_struct={"tokens": room}))
    stream = [token for row in rows for token in row["tokens"][row["tokens_segment_ids"] > 0]]
    assert stream == list(range(1, sum(lengths) + 1))
    assert all((row["tokens_segment_ids"] > 0).all() for row in rows[:-1])
    for row in rows:
        starts = row["tokens_positions"] == 0
        pieces = segments_of(row)
        assert all(row["tokens"].shape == (room,) for row in rows)
        assert (np.diff(row["tokens_segment_ids"][row["tokens_segment_ids"] > 0]) >= 0).all()
        assert starts[row["tokens_segment_ids"] > 0].sum() == sum(map(bool, pieces))


@settings(deadline=None, max_examples=60)
@given(
    lengths=st.lists(
        st.tuples(st.integers(0, 12), st.integers(0, 12), st.integers(0, 2)), max_size=25
    ),
    split=st.booleans(),
)
def test_uneven_features_lose_and_double_nothing(
    lengths: list[tuple[int, int, int]], split: bool
) -> None:
    first = 1
    docs = []
    for a, b, m in lengths:
        tokens = np.arange(first, first + a + b)
        docs.append({"a": tokens[:a], "b": tokens[a:], "m": np.full(m, first)})
        first += a + b
    rows = list(
        ConcatThenSplitIterDataset(
            parent(docs),
            length_struct={"a": 5, "b": 7, "m": 3},
            meta_features=("m",),
            split_full_length_features=split,
        )
    )
    found = [
        token
        for row in rows
        for name in "ab"
        for token in row[name][row[f"{name}_segment_ids"] > 0].tolist()
    ]
    assert sorted(found) == list(range(1, first))


def test_elements_of_full_length_pass_whole_when_requested() -> None:
    docs = [{"tokens": doc["tokens"]} for doc in documents([3, 4, 2, 4, 9])]
    rows = list(
        ConcatThenSplitIterDataset(
            parent(docs), length_struct={"tokens": 4}, split_full_length_features=False
        )
    )
    tokens = [row["tokens"].tolist() for row in rows]
    assert [4, 5, 6, 7] in tokens
    assert [10, 11, 12, 13] in tokens


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"split_full_length_features": False},
        {
            "bos_handling": BOSHandling.REPLACE_FIRST_TOKEN_WITH_BOS,
            "bos_features": ("tokens",),
            "bos_token_id": 99,
        },
    ],
    ids=["plain", "full_length_unsplit", "bos"],
)
@pytest.mark.parametrize("room", [1, 4, 50])
def test_joined_rows_resume_at_every_step(
    options: dict[str, Any], room: int, parent_of: Callable[..., Any], resumes: Callable[..., Any]
) -> None:
    lengths = [3, 4, 0, 2, 4, 9] if room == 1 else [3, 4, 0, 2, 4, 21, 4, 1, 1, 2, 4, 5]
    docs = [{"tokens": doc["tokens"]} for doc in documents(lengths)]
    resumes(
        lambda: ConcatThenSplitIterDataset(
            parent_of(docs), length_struct={"tokens": room}, **options
        )
    )


def test_joined_rows_with_meta_features_resume_at_every_step(
    parent_of: Callable[..., Any], resumes: Callable[..., Any]
) -> None:
    docs = [
        {"tokens": doc["tokens"], "m": np.array([number] * (number % 3))}
        for number, doc in enumerate(documents([3, 4, 0, 2, 4, 21, 4, 1, 1, 2, 4, 5]))
    ]
    resumes(
        lambda: ConcatThenSplitIterDataset(
            parent_of(docs), length_struct={"tokens": 6, "m": 3}, meta_features=("m",)
        )
    )


def test_a_state_without_remainder_survives_json() -> None:
    ds = ConcatThenSplitIterDataset(
        parent([{"x": np.arange(2)}, {"x": np.arange(2)}]), length_struct={"x": 2}
    )
    iterator = iter(ds)
    state = json.loads(json.dumps(iterator.get_state()))
    assert state == iterator.get_state()
    iterator.set_state(state)
    assert len(list(iterator)) == 2


def test_a_state_of_pairs_is_understood_too() -> None:
    ds = ConcatThenSplitIterDataset(parent([{"x": np.arange(5)}]), length_struct={"x": 2})
    iterator = iter(ds)
    iterator.set_state(
        {
            "parent_state": {"next_index": 0},
            "remainder_slices": {"x": (2, 5)},
            "elements_from_buffer_after_checkpoint": 0,
        }
    )
    assert [row["x"].tolist() for row in iterator] == [[2, 3], [4, 0]]


def test_a_state_that_does_not_fit_the_data_is_an_error() -> None:
    iterator = iter(
        ConcatThenSplitIterDataset(parent([{"x": np.arange(3)}]), length_struct={"x": 2})
    )
    iterator.set_state(
        {
            "parent_state": {"next_index": 0},
            "remainder_slices": {"x": [4, 9]},
            "elements_from_buffer_after_checkpoint": 0,
        }
    )
    with pytest.raises(ValueError, match="differs from the data of the checkpoint"):
        next(iterator)


@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("binner", BINNERS)
@pytest.mark.parametrize(
    "change",
    [
        *({"counter": wrong} for wrong in (-1, -(10**30), None, "x", 1.5, True, [], {})),
        *({"next_row": wrong} for wrong in (-1, -(10**30), 3, 10**30, None, "x", 0.5, True)),
        {"next_row": 2, "counter": 1},
        {"parent": {"next_index": -1}},
        {"parent": None},
    ],
    ids=str,
)
def test_a_wrong_state_of_bins_is_refused(binner: Any, shuffle: bool, change: Any) -> None:
    ds = binner(
        parent(documents([3, 4, 2, 4, 1, 3, 4, 2])),
        length_struct={"tokens": 5, "weights": 5},
        num_packing_bins=2,
        shuffle_bins=shuffle,
    )
    iterator = iter(ds)
    taken = [next(iterator)["tokens"].tolist()]
    state = iterator.get_state()
    with pytest.raises(
        (TypeError, ValueError, IndexError), match=r"of a state|state for|next_index"
    ):
        iterator.set_state(state | change)
    assert iterator.get_state() == state
    taken += [row["tokens"].tolist() for row in iterator]
    assert taken == [row["tokens"].tolist() for row in ds]


@pytest.mark.parametrize(
    "change",
    [
        *(
            {"elements_from_buffer_after_checkpoint": wrong}
            for wrong in (-1, -(10**30), None, "x", 1.5, True)
        ),
        *(
            {"remainder_slices": wrong}
            for wrong in (5, None, [], [[0, 1]], "x", {"x": 3}, {"x": [1]}, {"x": [2, 1]})
        ),
        *(
            {"remainder_slices": {"x": wrong}}
            for wrong in ([0, "y"], [0.0, 1.0], [None, 1], [0, 1, 2], [0, -1])
        ),
        {"remainder_slices": {"x": [-1, -1], "y": [0, 1]}},
        {"parent_state": {"next_index": 99}},
    ],
    ids=str,
)
def test_a_wrong_state_of_joined_rows_is_refused(change: dict[str, Any]) -> None:
    ds = ConcatThenSplitIterDataset(
        parent([{"x": np.arange(5), "y": np.arange(5)}] * 4), length_struct={"x": 3, "y": 3}
    )
    iterator = iter(ds)
    taken = [next(iterator)["x"].tolist() for _ in range(2)]
    state = iterator.get_state()
    with pytest.raises(
        (TypeError, ValueError, IndexError), match=r"of a state|state for|next_index"
    ):
        iterator.set_state(state | change)
    assert iterator.get_state() == state
    taken += [row["x"].tolist() for row in iterator]
    assert taken == [row["x"].tolist() for row in ds]


def test_an_element_that_fails_is_gone_and_what_was_joined_stays() -> None:
    docs: list[Any] = [{"x": np.array([1])}, {"y": np.array([9])}, {"x": np.array([2])}]
    iterator = iter(ConcatThenSplitIterDataset(parent(docs), length_struct={"x": 2}))
    with pytest.raises(ValueError, match="There must be a sequence length for each feature"):
        next(iterator)
    assert [row["x"].tolist() for row in iterator] == [[1, 2]]


@pytest.mark.parametrize(
    ("wrong", "error", "message"),
    [
        ({"length_struct": 4}, TypeError, "dictionary"),
        ({"length_struct": {"x": 0}}, ValueError, "positive"),
        ({"length_struct": {"x": None}}, TypeError, "length_struct"),
        ({"length_struct": {"x": {"y": 3}}, "meta_features": ("x",)}, TypeError, "unnested"),
        ({"bos_handling": 2}, TypeError, "bos_handling"),
        (
            {"bos_handling": BOSHandling.REPLACE_FIRST_TOKEN_WITH_BOS, "bos_features": ("x",)},
            ValueError,
            "bos_token_id must be set",
        ),
        ({"bos_token_id": 1}, ValueError, "not used"),
        (
            {
                "bos_handling": BOSHandling.REPLACE_FIRST_TOKEN_WITH_BOS,
                "bos_features": ("y",),
                "bos_token_id": 1,
            },
            ValueError,
            "'y'",
        ),
        (
            {
                "bos_handling": BOSHandling.REPLACE_FIRST_TOKEN_WITH_BOS,
                "bos_features": ("x",),
                "meta_features": ("x",),
                "bos_token_id": 1,
            },
            ValueError,
            "should not overlap",
        ),
    ],
)
def test_wrong_options_of_joining_are_refused_when_built(
    wrong: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        ConcatThenSplitIterDataset(parent([]), **({"length_struct": {"x": 4}} | wrong))


def test_a_meta_feature_that_is_too_long_is_an_error_that_says_so() -> None:
    ds = ConcatThenSplitIterDataset(
        parent([{"x": np.arange(3), "m": np.arange(5)}]),
        length_struct={"x": 4, "m": 2},
        meta_features=("m",),
    )
    with pytest.raises(ValueError, match=r"'m' has 5 values.*room for 2"):
        next(iter(ds))


@pytest.mark.parametrize("packer", [*BINNERS, ConcatThenSplitIterDataset])
def test_slow_elements_are_not_read_long_before_they_are_needed(packer: Any) -> None:
    read: list[int] = []

    def slow(x: int) -> dict[str, Any]:
        read.append(x)
        end = time.perf_counter() + 0.01
        while time.perf_counter() < end:
            pass
        return {"x": np.ones(2)}

    options = {} if packer is ConcatThenSplitIterDataset else {"num_packing_bins": 2}
    ds = packer(
        grain.MapDataset.range(1000).map(slow).to_iter_dataset(INLINE),
        length_struct={"x": 4},
        **options,
    )
    next(iter(ds))
    assert len(read) <= 8
