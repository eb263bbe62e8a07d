"""All ways of packing, with all their options, against what the rules say in plain Python."""

from __future__ import annotations

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
    PackAndBatchOperation,
)

from ...helpers.pipelines import INLINE

BOS = -7


def parent(elements: list[Any]) -> grain.IterDataset:
    return grain.MapDataset.source(elements).to_iter_dataset(INLINE)


def sequences(lengths: list[int]) -> list[list[int]]:
    """Sequences whose tokens are all different and positive."""
    made, first = [], 1
    for length in lengths:
        made.append(list(range(first, first + length)))
        first += length
    return made


def pieces_of(cells: Any, ids: Any) -> list[list[int]]:
    """The sequences in a row, in the order of their segment ids; each is in consecutive cells."""
    cells, ids = np.asarray(cells), np.asarray(ids)
    found = []
    for number in range(1, int(ids.max(initial=0)) + 1):
        places = np.flatnonzero(ids == number)
        assert (np.diff(places) == 1).all()
        found.append(cells[places].tolist())
    return found


def assert_positions(ids: Any, positions: Any) -> None:
    """Positions count from 0 in each sequence and are 0 in padding."""
    ids, positions = np.asarray(ids), np.asarray(positions)
    expected = np.zeros_like(positions)
    for number in range(1, int(ids.max(initial=0)) + 1):
        expected[ids == number] = np.arange((ids == number).sum())
    assert positions.tolist() == expected.tolist()


# Bins


class Bin:
    """A bin as the rules have it: where each feature's next free cell is, and what it holds."""

    def __init__(self, rooms: dict[str, int], alignments: dict[str, int], limit: int | None):
        self.rooms, self.alignments, self.limit = rooms, alignments, limit
        self.free = dict.fromkeys(rooms, 0)
        self.held: list[dict[str, list[int]]] = []

    def fits(self, element: dict[str, list[int]]) -> bool:
        if self.limit is not None and len(self.held) >= self.limit:
            return False
        return all(self.free[name] + len(element[name]) <= self.rooms[name] for name in self.rooms)

    def add(self, element: dict[str, list[int]]) -> None:
        self.held.append(element)
        for name, alignment in self.alignments.items():
            end = self.free[name] + len(element[name])
            self.free[name] = -(-end // alignment) * alignment

    @property
    def used(self) -> int:
        return sum(self.free.values())


def expected_bins(
    elements: list[dict[str, list[int]]],
    count: int,
    best: bool,
    rooms: dict[str, int],
    alignments: dict[str, int],
    limit: int | None,
) -> list[list[dict[str, list[int]]]]:
    """Return what each row holds, when bins are returned in their order."""
    rows: list[list[dict[str, list[int]]]] = []
    bins = [Bin(rooms, alignments, limit) for _ in range(count)]
    for element in elements:
        fitting = [bin_ for bin_ in bins if bin_.fits(element)]
        if not fitting:
            rows += [bin_.held for bin_ in bins if bin_.held]
            bins = [Bin(rooms, alignments, limit) for _ in range(count)]
            fitting = bins
        chosen = max(fitting, key=lambda bin_: bin_.used) if best else fitting[0]
        chosen.add(element)
    return rows + [bin_.held for bin_ in bins if bin_.held]


@pytest.mark.parametrize("best", [False, True], ids=["first_fit", "best_fit"])
@settings(deadline=None, max_examples=80)
@given(
    lengths=st.lists(st.tuples(st.integers(1, 8), st.integers(0, 6)), max_size=40),
    count=st.integers(1, 5),
    limit=st.none() | st.integers(1, 4),
    alignments=st.tuples(st.integers(1, 4), st.integers(1, 4)),
    rooms=st.tuples(st.integers(8, 15), st.integers(6, 12)),
)
def test_bins_are_filled_by_the_rule(
    best: bool,
    lengths: list[tuple[int, int]],
    count: int,
    limit: int | None,
    alignments: tuple[int, int],
    rooms: tuple[int, int],
) -> None:
    tokens = sequences([a for a, _ in lengths])
    others = sequences([b for _, b in lengths])
    elements = [{"a": a, "b": b} for a, b in zip(tokens, others, strict=True)]
    room = dict(zip("ab", rooms, strict=True))
    aligned = dict(zip("ab", alignments, strict=True))
    kind = BestFitPackIterDataset if best else FirstFitPackIterDataset
    rows = list(
        kind(
            parent(
                [
                    {name: np.array(e[name], np.int64) for name in e} | {"n": i}
                    for i, e in enumerate(elements)
                ]
            ),
            length_struct=room,
            num_packing_bins=count,
            shuffle_bins=False,
            meta_features=("n",),
            pack_alignment_struct=aligned,
            max_sequences_per_bin=limit,
        )
    )
    expected = expected_bins(elements, count, best, room, aligned, limit)
    assert [[elements[number] for number in row["n"]] for row in rows] == expected
    for row, held in zip(rows, expected, strict=True):
        for name in "ab":
            found = pieces_of(row[name], row[f"{name}_segment_ids"])
            # An empty sequence at the end of a row has no cell.
            wanted = [element[name] for element in held]
            assert found == wanted[: len(found)]
            assert not any(wanted[len(found) :])
            assert_positions(row[f"{name}_segment_ids"], row[f"{name}_positions"])


@pytest.mark.parametrize("kind", [FirstFitPackIterDataset, BestFitPackIterDataset])
@settings(deadline=None, max_examples=60)
@given(
    lengths=st.lists(st.integers(1, 6), max_size=30),
    seed=st.integers(0, 2**32),
    group=st.booleans(),
    padding=st.integers(-3, 3),
)
def test_shuffling_bins_only_changes_their_order_and_meta_features_go_along(
    kind: Any, lengths: list[int], seed: int, group: bool, padding: int
) -> None:
    docs = [{"x": np.array(s), "m": np.array([s[0], -s[0]])} for s in sequences(lengths)]
    options: dict[str, Any] = {
        "length_struct": {"x": 6, "m": 12},
        "num_packing_bins": 3,
        "meta_features": ("m",),
        "padding_struct": {"x": padding, "m": 0},
    }
    plain = list(kind(parent(docs), shuffle_bins=False, **options))
    shuffled = list(
        kind(
            parent(docs),
            seed=seed,
            shuffle_bins_group_by_feature="m" if group else None,
            **options,
        )
    )
    for row in shuffled:
        assert set(row) == {"x", "x_segment_ids", "x_positions", "m"}
        firsts = [piece[0] for piece in pieces_of(row["x"], row["x_segment_ids"])]
        assert row["m"][: 2 * len(firsts)].tolist() == [v for n in firsts for v in (n, -n)]
        assert not row["m"][2 * len(firsts) :].any()
        assert (row["x"][row["x_segment_ids"] == 0] == padding).all()
    as_lists = [sorted(row["x"].tolist() for row in rows) for rows in (plain, shuffled)]
    assert as_lists[0] == as_lists[1]


# Joining


@settings(deadline=None, max_examples=80)
@given(
    lengths=st.lists(st.integers(0, 14), max_size=25),
    room=st.integers(1, 9),
    split=st.booleans(),
)
def test_joined_sequences_keep_their_order_whatever_is_passed_whole(
    lengths: list[int], room: int, split: bool
) -> None:
    docs = sequences(lengths)
    rows = list(
        ConcatThenSplitIterDataset(
            parent([{"x": np.array(doc, np.int64)} for doc in docs]),
            length_struct={"x": room},
            split_full_length_features=split,
        )
    )
    found: list[list[int]] = []
    for row in rows:
        assert row["x"].shape == (room,)
        # An empty sequence has a segment, but no cell.
        found += filter(None, pieces_of(row["x"], row["x_segment_ids"]))
        assert_positions(row["x_segment_ids"], row["x_positions"])
    # Padding is in the last row that is joined; sequences that are passed whole may follow it.
    padded = [row for row in rows[:-1] if not (row["x_segment_ids"] > 0).all()]
    assert not padded or not split
    # The pieces of a sequence, put together in the order they came, are the sequence.
    owner = {token: number for number, doc in enumerate(docs) for token in doc}
    joined: dict[int, list[int]] = {}
    for piece in found:
        numbers = {owner[token] for token in piece}
        assert len(numbers) == 1
        joined.setdefault(numbers.pop(), []).extend(piece)
    assert joined == {number: doc for number, doc in enumerate(docs) if doc}
    if split:
        assert [token for piece in found for token in piece] == [t for doc in docs for t in doc]
    else:
        assert all(doc in found for doc in docs if len(doc) == room)


@settings(deadline=None, max_examples=100)
@given(
    lengths=st.lists(st.integers(0, 14), max_size=25),
    room=st.integers(1, 9),
    split=st.booleans(),
    meta=st.booleans(),
)
def test_bos_replaces_the_first_token_of_each_piece_and_nothing_else(
    lengths: list[int], room: int, split: bool, meta: bool
) -> None:
    docs = [{"x": np.array(s, np.int64), "y": np.array(s, np.int64)} for s in sequences(lengths)]
    rooms = {"x": room, "y": room}
    if meta:
        docs = [doc | {"m": np.array([7])} for doc in docs]
        rooms |= {"m": 2}
    options: dict[str, Any] = {
        "length_struct": rooms,
        "meta_features": ("m",) if meta else (),
        "split_full_length_features": split,
    }
    plain = list(ConcatThenSplitIterDataset(parent(docs), **options))
    marked = list(
        ConcatThenSplitIterDataset(
            parent(docs),
            bos_handling=BOSHandling.REPLACE_FIRST_TOKEN_WITH_BOS,
            bos_features=("x",),
            bos_token_id=BOS,
            **options,
        )
    )
    assert len(plain) == len(marked)
    for before, after in zip(plain, marked, strict=True):
        assert set(before) == set(after)
        for name in set(before) - {"x"}:
            assert before[name].tolist() == after[name].tolist()
        first = (before["x_segment_ids"] > 0) & (before["x_positions"] == 0)
        assert after["x"].tolist() == np.where(first, BOS, before["x"]).tolist()


@settings(deadline=None, max_examples=100)
@given(
    lengths=st.lists(st.tuples(st.integers(0, 9), st.integers(0, 2)), max_size=25),
    room=st.integers(1, 9),
    split=st.booleans(),
)
def test_every_row_carries_the_meta_values_of_what_is_in_it(
    lengths: list[tuple[int, int]], room: int, split: bool
) -> None:
    docs = sequences([length for length, _ in lengths])
    counts = [count for _, count in lengths]
    rows = list(
        ConcatThenSplitIterDataset(
            parent(
                [
                    {"x": np.array(doc, np.int64), "m": np.full(count, 100 + number)}
                    for number, (doc, count) in enumerate(zip(docs, counts, strict=True))
                ]
            ),
            length_struct={"x": room, "m": 4},
            meta_features=("m",),
            split_full_length_features=split,
        )
    )
    owner = {token: number for number, doc in enumerate(docs) for token in doc}
    tokens = []
    for row in rows:
        assert set(row) == {"x", "x_segment_ids", "x_positions", "m"}
        pieces = pieces_of(row["x"], row["x_segment_ids"])
        tokens += [token for piece in pieces for token in piece]
        values = [value for value in row["m"].tolist() if value]
        for number in {owner[token] for piece in pieces for token in piece}:
            assert values.count(100 + number) == counts[number]
    assert sorted(tokens) == [token for doc in docs for token in doc]


# The operation of data loaders


@settings(deadline=None, max_examples=80)
@given(
    lengths=st.lists(st.tuples(st.integers(1, 6), st.integers(0, 5)), max_size=30),
    size=st.integers(1, 4),
    limit=st.none() | st.integers(1, 3),
    rooms=st.tuples(st.integers(6, 10), st.integers(5, 8)),
)
def test_packed_batches_hold_every_record_once_in_the_first_row_where_it_fits(
    lengths: list[tuple[int, int]], size: int, limit: int | None, rooms: tuple[int, int]
) -> None:
    tokens = sequences([a for a, _ in lengths])
    others = sequences([b for _, b in lengths])
    elements = [{"a": a, "b": b} for a, b in zip(tokens, others, strict=True)]
    room = dict(zip("ab", rooms, strict=True))
    records = [
        grain.python.Record(
            grain.python.RecordMetadata(index=number, record_key=number),
            {name: np.array(element[name], np.int64) for name in element},
        )
        for number, element in enumerate(elements)
    ]
    operation = PackAndBatchOperation(
        length_struct=room, batch_size=size, max_sequences_per_bin=limit
    )
    batches = list(operation(iter(records)))
    expected = expected_bins(elements, size, False, room, {"a": 1, "b": 1}, limit)
    given_rows = []
    seen = 0
    for batch in batches:
        values, ids, positions = batch.data
        for name in "ab":
            assert values[name].shape == ids[name].shape == (size, room[name])
        for row in range(size):
            pieces = {name: pieces_of(values[name][row], ids[name][row]) for name in "ab"}
            for name in "ab":
                assert_positions(ids[name][row], positions[name][row])
                assert (values[name][row][ids[name][row] == 0] == 0).all()
            if pieces["a"]:
                given_rows.append(pieces)
                seen += len(pieces["a"])
        # A batch has the metadata of its last record.
        assert batch.metadata.index == seen - 1
    assert len(given_rows) == len(expected)
    for pieces, held in zip(given_rows, expected, strict=True):
        assert pieces["a"] == [element["a"] for element in held]
        wanted = [element["b"] for element in held]
        assert pieces["b"] == wanted[: len(pieces["b"])]
        assert not any(wanted[len(pieces["b"]) :])
    # Nothing that was packed stays for the next time.
    assert len(list(operation(iter(records)))) == len(batches)
