"""Wrong arguments of datasets and their methods: a call, its error, and a pattern of the message."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np

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
    "weights by dataset": (
        lambda: Map.mix({numbers(): 0.5}),
        TypeError,
        r"needs a dictionary from names to datasets, got the key .*`mix\(\[a, b\], \[0.7, 0.3\]\)`",
    ),
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


REFUSED = FUNCTIONS | BATCHES | SEEDS | OTHERS
