"""Batches that are assembled from portions: equal to those of all elements at once."""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import grain
from grain import tree
from grain.dataset.growing_stack import GrowingStack, portion_size

LARGE = 1 << 15
values = st.sampled_from(
    [
        np.arange(LARGE, dtype=np.float32),
        np.arange(LARGE, dtype=np.int64),
        np.ones((2, LARGE), np.float32),
        np.ones((LARGE, 2), np.float32, order="F"),
        np.arange(LARGE, dtype=">f8"),
        np.arange(LARGE).astype("datetime64[s]"),
        np.zeros(LARGE, [("a", "i4"), ("b", "f8")]),
        np.arange(3),
        7,
        2.5,
        "text",
        None,
    ]
)
like = st.one_of(values, st.fixed_dictionaries({"b": values, "a": values}, optional={"c": values}))


def outcome(function: Any) -> Any:
    try:
        return tree.map_leaves(lambda x: (x.dtype, x.shape, x.tolist()), function())
    except Exception as error:
        return type(error), str(error)


@given(st.data())
def test_a_stack_of_portions_is_that_of_all_elements(data):
    usual = data.draw(like)
    count = data.draw(st.integers(1, 6))
    elements = [usual] * count
    if data.draw(st.booleans()):
        elements[data.draw(st.integers(0, count - 1))] = data.draw(like)
    stack, begin = GrowingStack(count), 0
    while begin < count:
        size = data.draw(st.integers(1, count))
        stack.add(elements[begin : begin + size])
        begin += size
    assert outcome(stack.finish) == outcome(lambda: tree.stack(elements))


KEPT = np.zeros((16, 1 << 20), np.uint8)
NEW = {
    "array": lambda: np.zeros(1 << 20, np.uint8),
    "array of bytes": lambda: np.frombuffer(bytes(1 << 20), np.uint8).reshape(1024, 1024),
    "dictionary": lambda: {"image": np.zeros(1 << 20, np.uint8), "label": 1},
    "converted row": lambda: {"image": KEPT[1].astype(np.float32)},
}
EXISTING = {
    "array": lambda: KEPT,
    "row": lambda: KEPT[3],
    "dictionary": lambda: {"image": KEPT},
    "dictionary of a row": lambda: {"image": KEPT[3, ::2], "label": 1},
}


@pytest.mark.parametrize("make", NEW.values(), ids=NEW)
def test_elements_in_memory_of_their_own_are_read_in_portions(make):
    elements = [make()]
    size = portion_size(elements[0], 64)  # An assertion would hold another reference.
    assert size > 0


@pytest.mark.parametrize("make", EXISTING.values(), ids=EXISTING)
def test_elements_in_memory_that_exists_anyway_are_read_together(make):
    elements = [make()]
    size = portion_size(elements[0], 64)  # An assertion would hold another reference.
    assert size == 0


class Counting:
    """Counts the arrays of 1 MiB that are alive."""

    def __init__(self) -> None:
        self.alive = self.most = 0

    def __call__(self, x: int) -> Any:
        array = np.full(1 << 20, x, np.uint8)
        self.alive += 1
        self.most = max(self.most, self.alive)
        weakref.finalize(array, self._gone)
        return {"image": array, "label": x}

    def _gone(self) -> None:
        self.alive -= 1


def test_large_elements_of_a_batch_are_not_all_in_memory_beside_it():
    counting = Counting()
    ds = grain.MapDataset.range(40).map(counting).batch(16)
    batches = list(ds)
    assert [len(batch["label"]) for batch in batches] == [16, 16, 8]
    for batch in batches:
        assert list(batch) == ["image", "label"]
        assert (batch["image"][:, 0] == batch["label"]).all()
        assert batch["image"].shape[1:] == (1 << 20,)
    assert counting.most <= 4  # A portion of 4 MiB.


def test_every_element_is_computed_once():
    seen: list[int] = []

    def large(x: int) -> np.ndarray:
        seen.append(x)
        return np.full(1 << 20, x, np.uint8)

    assert len(grain.MapDataset.range(20).map(large).batch(8)[1]) == 8
    assert seen == list(range(8, 16))
    seen.clear()
    small = grain.MapDataset.range(20).map(lambda x: seen.append(x) or x).batch(8)
    assert small[0].tolist() == seen == list(range(8))


def test_an_error_in_a_large_batch_is_that_of_its_element():
    def large(x: int) -> np.ndarray:
        if x == 11:
            raise LookupError("no eleven")
        return np.full((1 << 20) + (x == 20), x, np.uint8)

    ds = grain.MapDataset.range(32).map(large).batch(8)
    assert ds[0].shape == (8, 1 << 20)
    with pytest.raises(LookupError, match="no eleven"):
        ds[1]
    with pytest.raises(ValueError, match="same structure"):
        ds[2]
    with iter(ds.to_iter_dataset()) as iterator:
        assert next(iterator)[0, 0] == 0
        with pytest.raises(LookupError):
            next(iterator)


class TogetherSource:
    """Reads many records in one call."""

    def __init__(self) -> None:
        self.calls: list[list[int]] = []

    def __len__(self) -> int:
        return 16

    def __getitem__(self, index: int) -> np.ndarray:
        return self.__getitems__([index])[0]

    def __getitems__(self, indices: list[int]) -> list[np.ndarray]:
        self.calls.append(list(indices))
        return [np.full(1 << 20, index, np.uint8) for index in indices]


def test_a_source_that_reads_many_records_at_once_still_does():
    source = TogetherSource()
    assert grain.MapDataset.source(source).map(lambda x: x).batch(8)[0].shape == (8, 1 << 20)
    assert source.calls == [list(range(8))]
