"""Reading by index: empty datasets, indices of any kind, and lengths."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import grain

Map = grain.MapDataset
Iter = grain.IterDataset
Options = grain.MultiprocessingOptions


def numbers(count: int = 4) -> grain.IterDataset:
    return Map.range(count).to_iter_dataset()


class WideFlatMap(grain.experimental.FlatMapTransform):
    def __init__(self, fan_out: Any):
        self.max_fan_out = fan_out

    def flat_map(self, element: Any) -> list[Any]:
        return [element]


EMPTY: dict[str, Callable[[], grain.MapDataset]] = {
    "range": lambda: Map.range(0),
    "source": lambda: Map.source([]),
    "array": lambda: Map.source(np.zeros((0, 2))),
    "slice": lambda: Map.range(4)[3:3],
    "picked": lambda: Map.range(4).slice([]),
    "shuffle": lambda: Map.range(0).shuffle(1),
    "map": lambda: Map.range(0).map(abs),
    "filter": lambda: Map.range(0).filter(bool),
    "random map": lambda: Map.range(0).random_map(lambda x, r: x, seed=1),
    "batch": lambda: Map.range(0).batch(2),
    "batch that drops all": lambda: Map.range(1).batch(2, drop_remainder=True),
    "repeat": lambda: Map.range(0).repeat(),
    "seed": lambda: Map.range(0).seed(1),
    "concatenation": lambda: Map.concatenate([Map.range(0), Map.range(0)]),
    "concatenation of nothing": lambda: Map.concatenate([]),
    "flat map": lambda: Map.range(0).apply(WideFlatMap(2)),
}


@pytest.mark.parametrize("name", EMPTY)
@pytest.mark.parametrize("index", [0, -1, 5])
def test_an_empty_dataset_has_no_element_at_any_index(name, index):
    ds = EMPTY[name]()
    with pytest.raises(IndexError, match=rf"Index {index} is out of range: .* is empty"):
        ds[index]
    with pytest.raises(IndexError, match=rf"Index {index} is out of range: .* is empty"):
        ds.__getitems__([index, 7])


@pytest.mark.parametrize("name", EMPTY)
def test_an_empty_dataset_can_be_read_iterated_and_resumed(name):
    ds = EMPTY[name]()
    assert len(ds) == 0
    assert ds.__getitems__([]) == []
    assert list(ds) == []
    iterator = iter(ds)
    iterator.set_state(iterator.get_state())
    assert list(iterator) == []
    assert list(ds.to_iter_dataset().batch(3)) == []


INDEXED: dict[str, grain.MapDataset] = {
    "range": Map.range(4),
    "map": Map.range(4).map(abs),
    "batch": Map.range(4).batch(2),
    "mix": Map.mix([Map.range(4), Map.range(4)]),
}


@pytest.mark.parametrize("name", INDEXED)
@pytest.mark.parametrize("index", ["a", 1.0, None, (0, 1), [0], np.float64(1)])
def test_an_index_that_is_no_integer_is_refused(name, index):
    with pytest.raises(TypeError, match=r"is indexed by integers or slices, got .* of type"):
        INDEXED[name][index]


@pytest.mark.parametrize("name", INDEXED)
@pytest.mark.parametrize("index", [2**70, -(2**70), 2**63])
def test_an_index_beyond_64_bits_is_that_of_a_late_epoch_and_is_read_by_itself(name, index):
    ds = INDEXED[name]
    assert np.array_equal(ds[index], ds[index % len(ds)])
    with pytest.raises(IndexError, match=f"Index {index} of .* does not fit into 64 bits"):
        INDEXED[name].__getitems__([0, index])


@pytest.mark.parametrize("name", INDEXED)
def test_unsigned_indices_do_not_wrap(name):
    large = np.array([1, 2**64 - 2], dtype=np.uint64)
    with pytest.raises(IndexError, match=f"Index {2**64 - 2} of .* does not fit into 64 bits"):
        INDEXED[name].__getitems__(large)
    small = INDEXED[name].__getitems__(np.array([1, 2**63 - 1], dtype=np.uint64))
    assert np.array_equal(small, INDEXED[name].__getitems__([1, 2**63 - 1]))


@pytest.mark.parametrize("name", INDEXED)
@pytest.mark.parametrize("indices", [np.zeros((2, 1), np.int64), [[0, 1], [2, 3]], 3, np.array(2)])
def test_indices_of_another_shape_than_a_sequence_are_refused(name, indices):
    with pytest.raises(TypeError, match=r"flat sequence of indices, got one of shape \("):
        INDEXED[name].__getitems__(indices)


@pytest.mark.parametrize("index", [np.int8(-1), np.uint64(3), np.array(3), sys.maxsize - 4])
def test_an_index_of_any_integer_type_is_taken(index):
    assert Map.range(4)[index] == 3
    assert Map.range(4).map(abs).__getitems__([index]) == [3]


def test_indices_that_are_no_integers_are_refused():
    with pytest.raises(TypeError, match=r"got 1\.5 of type float64|got 1\.5 of type float"):
        Map.range(4).__getitems__([0, 1.5])
    with pytest.raises(TypeError, match="got 'a' of type str"):
        Map.range(4).__getitems__(["a"])


def test_abstract_classes_cannot_be_made():
    for kind in (grain.MapDataset, grain.IterDataset, grain.DatasetIterator):
        with pytest.raises(TypeError, match="abstract"):
            kind()


# --- numbers of numpy ----------------------------------------------------------------------------


def test_numbers_of_numpy_are_as_good_as_python_s():
    assert len(Map.range(10**9).repeat(np.int32(3))) == 3 * 10**9
    assert len(Map.range(np.int64(10)).batch(np.int8(3))) == 4
    assert list(Map.range(5).shuffle(np.uint32(2**32 - 1))) == list(Map.range(5).shuffle(2**32 - 1))
    many = Map.range(5).shuffle(np.uint32(2**32 - 1)).repeat(2)
    assert list(many) == list(Map.range(5).shuffle(2**32 - 1).repeat(2))
    weights = np.array([0.25, 0.75], dtype=np.float32)
    mixed = Map.mix([Map.range(4), Map.range(10, 40)], weights)
    assert list(mixed) == list(Map.mix([Map.range(4), Map.range(10, 40)], [0.25, 0.75]))


def test_endless_datasets_of_split_elements_have_a_length():
    assert len(Map.range(3).repeat().apply(WideFlatMap(2))) == sys.maxsize


def test_batches_may_be_larger_than_any_dataset():
    whole = list(range(6))
    ds = Map.range(6)
    assert [batch.tolist() for batch in ds.batch(2**70).repeat(2)] == [whole, whole]
    assert [batch.tolist() for batch in ds.to_iter_dataset().batch(2**70)] == [whole]
    assert len(ds.batch(2**70, drop_remainder=True)) == 0


def test_a_selection_without_a_map_is_a_mixture():
    parts = [Map.range(3), Map.range(10, 15)]
    assert list(Map.select_from_datasets(parts, None)) == list(Map.mix(parts))


@pytest.mark.parametrize("wrong", [np.arange(3), int])
def test_arrays_and_classes_are_no_integers(wrong):
    # Both have `__index__`, which raises an error without the name of the argument.
    with pytest.raises(TypeError, match="is indexed by integers or slices, got"):
        Map.range(4)[wrong]
    with pytest.raises(TypeError, match=r"seed must be an integer, got .* of type (ndarray|type)"):
        Map.range(4).seed(wrong)


@pytest.mark.parametrize("wrong", [{}, {"a": 1}, {1, 2}, np.int64(3), iter([1, 2]), "12"])
def test_a_selection_is_a_slice_or_a_sequence(wrong):
    with pytest.raises(ValueError, match="sl is not a slice: <class"):
        Map.range(4).slice(wrong)
