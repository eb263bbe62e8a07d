"""A wrong argument is refused where the pipeline is built, with what was given and what was expected."""

from __future__ import annotations

import re
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


class NoGetItem:
    def __len__(self) -> int:
        return 3


class NoLength:
    def __getitem__(self, index: int) -> int:
        return index


class WideFlatMap(grain.experimental.FlatMapTransform):
    def __init__(self, fan_out: Any):
        self.max_fan_out = fan_out

    def flat_map(self, element: Any) -> list[Any]:
        return [element]


Case = tuple[Callable[[], Any], type[Exception], str]

FUNCTIONS: dict[str, Case] = {
    f"{kind} {operation}({wrong!r})": (
        lambda ds=ds, operation=operation, wrong=wrong, extra=extra: getattr(ds, operation)(
            wrong, **extra
        ),
        TypeError,
        rf"`{operation}` needs a function or an instance of grain\.transforms\.{name}, got "
        rf"{re.escape(repr(wrong))} of type {type(wrong).__name__}",
    )
    for kind, ds in {"map": Map.range(3), "iter": numbers()}.items()
    for operation, name, extra in (
        ("map", "Map", {}),
        ("filter", "Filter", {}),
        ("map_with_index", "MapWithIndex", {}),
        ("random_map", "RandomMap", {"seed": 1}),
    )
    for wrong in (3, None, "abs")
}

BATCHES: dict[str, Case] = {
    f"{kind} batch({wrong!r})": (lambda ds=ds, wrong=wrong: ds.batch(wrong), error, message)
    for kind, ds in {"map": Map.range(3), "iter": numbers()}.items()
    for wrong, error, message in (
        (0, ValueError, "batch_size must be positive. Got 0"),
        (-1, ValueError, "batch_size must be positive. Got -1"),
        (1.5, TypeError, "batch_size must be an integer, got 1.5 of type float"),
        ("a", TypeError, "batch_size must be an integer, got 'a' of type str"),
        (True, TypeError, "batch_size must be an integer, got True of type bool"),
        (None, TypeError, "batch_size must be an integer, got None of type NoneType"),
    )
}

SEEDS: dict[str, Case] = {
    f"{name} seed {wrong!r}": (lambda call=call, wrong=wrong: call(wrong), error, message)
    for name, call in {
        "shuffle": lambda seed: Map.range(3).shuffle(seed),
        "seed of map": lambda seed: Map.range(3).seed(seed),
        "seed of iter": lambda seed: numbers().seed(seed),
        "random map": lambda seed: Map.range(3).random_map(lambda x, r: x, seed=seed),
        "random map of iter": lambda seed: numbers().random_map(lambda x, r: x, seed=seed),
    }.items()
    for wrong, error, message in (
        (-1, ValueError, "-1"),
        ("a", TypeError, "seed must be an integer, got 'a' of type str"),
        (1.0, TypeError, "seed must be an integer, got 1.0 of type float"),
        (True, TypeError, "seed must be an integer, got True of type bool"),
    )
}

OTHERS: dict[str, Case] = {
    "batch_fn": (
        lambda: Map.range(3).batch(2, batch_fn=3),
        TypeError,
        "batch_fn must be a function of a list of elements, got 3 of type int",
    ),
    "batch_fn of iter": (lambda: numbers().batch(2, batch_fn="x"), TypeError, "batch_fn must be"),
    "batch after filter": (
        lambda: Map.range(3).filter(bool).batch(2),
        ValueError,
        r"can not follow `MapDataset.filter`.*to_iter_dataset\(\)",
    ),
    "batch some steps after filter": (
        lambda: Map.range(3).filter(bool).map(abs).shuffle(1)[1:].seed(1).repeat(2).batch(2),
        ValueError,
        "can not follow",
    ),
    "batch after a mix with a filter": (
        lambda: Map.mix([Map.range(3), Map.range(3).filter(bool)]).batch(2),
        ValueError,
        "can not follow",
    ),
    "batch after flat map": (
        lambda: Map.range(3).apply(WideFlatMap(2)).batch(2),
        ValueError,
        "can not follow",
    ),
    "repeat(0)": (
        lambda: Map.range(3).repeat(0),
        ValueError,
        "num_epochs must be positive, but got 0",
    ),
    "repeat(-1)": (lambda: Map.range(3).repeat(-1), ValueError, "but got -1"),
    "repeat('a')": (
        lambda: Map.range(3).repeat("a"),
        TypeError,
        "num_epochs must be an integer, got 'a' of type str",
    ),
    "repeat(1.0)": (lambda: Map.range(3).repeat(1.0), TypeError, "got 1.0 of type float"),
    "repeat twice without end": (
        lambda: Map.range(3).repeat().repeat(),
        ValueError,
        r"already infinite dataset RepeatMapDataset\(num_epochs=None\)",
    ),
    "shuffle without a seed": (
        lambda: Map.range(3).shuffle(),
        ValueError,
        r"`shuffle` requires a seed.*ds\.seed\(seed\).*ds\.shuffle\(seed=seed\)",
    ),
    "shuffle(2**32)": (
        lambda: Map.range(3).shuffle(2**32),
        ValueError,
        r"between 0 and 2\*\*32-1 \(got seed=4294967296\)",
    ),
    "random_map without a seed": (
        lambda: Map.range(3).random_map(lambda x, r: x),
        ValueError,
        r"`random_map` requires a seed.*ds\.seed\(seed\)",
    ),
    "random_map of iter without a seed": (
        lambda: numbers().random_map(lambda x, r: x),
        ValueError,
        "`random_map` requires a seed",
    ),
    "slice(3)": (
        lambda: Map.range(3).slice(3),
        ValueError,
        r"not a slice.*int.*sequence of integers",
    ),
    "slice(text)": (lambda: Map.range(3).slice("0:2"), ValueError, "not a slice"),
    "slice([99])": (
        lambda: Map.range(3).slice([0, 99]),
        IndexError,
        r"Index 99 is out of range for RangeMapDataset\(start=0, stop=3, step=1\) of length 3",
    ),
    "slice([-4])": (lambda: Map.range(3).slice([-4]), IndexError, "Index -4 is out of range"),
    "slice of nothing": (lambda: Map.range(0).slice([0]), IndexError, "Index 0 is out of range"),
    "slice(['a'])": (lambda: Map.range(3).slice(["a"]), TypeError, "got 'a' of type str"),
    "slice of a mask": (
        lambda: Map.range(3).slice([True, False, True]),
        TypeError,
        r"a mask of booleans; `numpy.flatnonzero\(mask\)`",
    ),
    "slice of a mask of numpy": (
        lambda: Map.range(3).slice(np.array([True, False, True])),
        TypeError,
        "bool",
    ),
    "slice step 0": (lambda: Map.range(3)[::0], ValueError, "step cannot be zero"),
    "slice by texts": (lambda: Map.range(3)["a":"b"], TypeError, "slice indices"),
    "range step 0": (lambda: Map.range(0, 3, 0), ValueError, "must not be zero"),
    "range('a')": (lambda: Map.range("a"), TypeError, "str"),
    "source(None)": (
        lambda: Map.source(None),
        TypeError,
        "`__len__` and `__getitem__`.*got NoneType, which has no `__len__`",
    ),
    "source without length": (lambda: Map.source(NoLength()), TypeError, "NoLength.*no `__len__`"),
    "source without reading": (
        lambda: Map.source(NoGetItem()),
        TypeError,
        "NoGetItem, which has no `__getitem__`",
    ),
    "source of a class": (lambda: Map.source(list), TypeError, "got type"),
    "source of a generator": (lambda: Map.source(x for x in "ab"), TypeError, "got generator"),
    "mix of nothing": (lambda: Map.mix([]), ValueError, "at least one dataset"),
    "mix of None": (lambda: Map.mix(None), TypeError, "sequence of datasets, got NoneType"),
    "mix of a dataset": (lambda: Map.mix(Map.range(3)), TypeError, "sequence of datasets"),
    "mix of a list": (
        lambda: Map.mix([Map.range(3), [1]]),
        TypeError,
        r"type MapDataset, but item 1 is \[1\] of type list",
    ),
    "mix of iter datasets": (lambda: Map.mix([numbers()]), TypeError, "item 0 is .*IterDataset"),
    "mix with an empty one": (
        lambda: Map.mix([Map.range(3), Map.range(0)]),
        ValueError,
        r"index 1 \(RangeMapDataset\(start=0, stop=0, step=1\)\) have length 0",
    ),
    "iter mix of nothing": (lambda: Iter.mix([]), ValueError, "at least one dataset"),
    "iter mix of a number": (
        lambda: Iter.mix([3]),
        TypeError,
        "IterDataset or MapDataset.*item 0 is 3",
    ),
    "named mix of nothing": (lambda: Iter.mix({}), ValueError, "at least one dataset"),
    "named mix of a number": (lambda: Iter.mix({"a": 3}), TypeError, "item 0 is 3"),
    "named datasets, listed weights": (
        lambda: Iter.mix({"a": numbers()}, [1]),
        TypeError,
        r"needs weights by name, got \[1\]; the names are \['a'\]",
    ),
    "named weights, listed datasets": (
        lambda: Iter.mix([numbers()], {"a": 1}),
        TypeError,
        "named weights for a list of datasets",
    ),
    "other names for weights": (
        lambda: Iter.mix({"a": numbers(), "b": numbers()}, {"a": 1, "c": 1}),
        ValueError,
        r"datasets named \['a', 'b'\] but weights for \['a', 'c'\]",
    ),
    "concatenate None": (lambda: Map.concatenate(None), TypeError, "sequence of datasets"),
    "concatenate a number": (lambda: Map.concatenate([3]), TypeError, "item 0 is 3 of type int"),
    "concatenate without end": (
        lambda: Map.concatenate([Map.range(3).repeat()]),
        ValueError,
        "Cannot concatenate infinite datasets",
    ),
    "selection map": (
        lambda: Map.select_from_datasets([Map.range(3)], 3),
        TypeError,
        "DatasetSelectionMap, got 3 of type int",
    ),
    "to_iter_dataset options": (
        lambda: Map.range(3).to_iter_dataset(3),
        TypeError,
        "read_options must be a grain.ReadOptions, got 3 of type int",
    ),
    "to_iter_dataset with the other options": (
        lambda: Map.range(3).to_iter_dataset(Options(num_workers=1)),
        TypeError,
        "read_options must be a grain.ReadOptions, got MultiprocessingOptions",
    ),
    "mp_prefetch options": (
        lambda: numbers().mp_prefetch(3),
        TypeError,
        "options must be a grain.MultiprocessingOptions, got 3 of type int",
    ),
    "mp_prefetch with the other options": (
        lambda: numbers().mp_prefetch(grain.ReadOptions()),
        TypeError,
        "grain.MultiprocessingOptions, got ReadOptions",
    ),
    "mp_prefetch worker_init_fn": (
        lambda: numbers().mp_prefetch(Options(num_workers=1), 3),
        TypeError,
        r"worker_init_fn must be a function of \(worker index, worker count\), got 3",
    ),
    "prefetch options": (lambda: numbers().prefetch("x"), TypeError, "MultiprocessingOptions"),
    "with options": (
        lambda: grain.experimental.WithOptionsIterDataset(numbers(), {"filter": 1}),
        TypeError,
        "grain.experimental.DatasetOptions, got {'filter': 1} of type dict",
    ),
    "apply a number": (
        lambda: Map.range(3).apply(3),
        NotImplementedError,
        r"3 is not supported.*grain\.transforms",
    ),
    "apply a function": (
        lambda: Map.range(3).apply(abs),
        NotImplementedError,
        "built-in function abs",
    ),
    "apply a class": (
        lambda: numbers().apply([grain.transforms.Batch(2), WideFlatMap]),
        NotImplementedError,
        "instance of a class",
    ),
    "flat map": (
        lambda: grain.experimental.FlatMapMapDataset(Map.range(3), lambda x: [x]),
        TypeError,
        "instance of grain.transforms.FlatMap, got <function",
    ),
    "flat map of iter": (
        lambda: grain.experimental.FlatMapIterDataset(numbers(), 3),
        TypeError,
        "instance of grain.transforms.FlatMap, got 3",
    ),
    "fan out 0": (
        lambda: Map.range(3).apply(WideFlatMap(0)),
        ValueError,
        "max_fan_out must be positive",
    ),
    "fan out 'a'": (
        lambda: Map.range(3).apply(WideFlatMap("a")),
        TypeError,
        "max_fan_out must be an",
    ),
}

WEIGHTS: list[tuple[Any, type[Exception], str]] = [
    ([1], ValueError, r"2 datasets but 1 weights: \[1\]"),
    ([1, 2, 3], ValueError, "2 datasets but 3 weights"),
    ([1, 0], ValueError, "non-zero"),
    ([1, -1], ValueError, r"positive and finite, got \[1, -1\]"),
    ([1, float("inf")], ValueError, "positive and finite"),
    ([1, float("nan")], ValueError, "positive and finite"),
    ([1, 5e-324], ValueError, "too large a factor"),
    (["a", "b"], TypeError, "weights that are numbers, got 'a' of type str"),
    ([1, None], TypeError, "weights that are numbers, got None of type NoneType"),
    ("ab", TypeError, "sequence of numbers, got 'ab'"),
    (3, TypeError, "sequence of numbers, got 3"),
]
for kind, make in {
    "mix": lambda weights: Map.mix([Map.range(3), Map.range(3)], weights),
    "iter mix": lambda weights: Iter.mix([numbers(), numbers()], weights),
}.items():
    for weights, error, message in WEIGHTS:
        OTHERS[f"{kind} with weights {weights!r}"] = (
            lambda make=make, weights=weights: make(weights),
            error,
            message,
        )

CASES = FUNCTIONS | BATCHES | SEEDS | OTHERS


@pytest.mark.parametrize("name", CASES)
def test_building_refuses(name):
    build, error, message = CASES[name]
    with pytest.raises(error, match=f"(?s){message}"):
        build()


# --- reading -------------------------------------------------------------------------------------

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
def test_an_empty_dataset_can_be_asked_for_nothing_iterated_and_continued(name):
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
def test_an_index_beyond_64_bits_is_refused(name, index):
    with pytest.raises(IndexError, match=f"Index {index} of .* does not fit into 64 bits"):
        INDEXED[name][index]
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
