"""A fingerprint names everything that decides on the elements, with the same text every time."""

from __future__ import annotations

import contextlib
import dataclasses
import enum
import functools
import importlib
import inspect
import pkgutil
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import grain
from grain.dataset.fingerprint.lines import KINDS, Line
from grain.dataset.fingerprint.stable_text import stable_text
from grain.dataset.node import DatasetNode


def lines(dataset) -> list[str]:
    return [str(line) for line in dataset.fingerprint()]


def all_dataset_classes() -> set[type]:
    for module in pkgutil.walk_packages(grain.__path__, "grain."):
        if ".template" not in module.name and not module.name.endswith(("__main__", "orbax_args")):
            with contextlib.suppress(ModuleNotFoundError):  # Of an optional library.
                importlib.import_module(module.name)
    found: set[type] = set()
    level: list[type] = [grain.MapDataset, grain.IterDataset]
    while level:
        level = [kind for one in level for kind in one.__subclasses__() if kind not in found]
        found.update(level)
    # Without subjects of conformance checks, which are written as users write their datasets.
    own = {kind for kind in found if kind.__module__.partition(".")[0] == "grain"}
    return {kind for kind in own if not kind.__module__.startswith("grain.testing")}


def test_every_operation_of_the_library_says_what_decides_on_its_elements():
    bases = {"TransformMapDataset"}  # Its subclasses are used.
    unknown = [
        kind.__name__
        for kind in all_dataset_classes()
        if not inspect.isabstract(kind)
        and kind.__name__ not in bases
        and kind.fingerprint_name is None
        and kind.fingerprint is DatasetNode.fingerprint
    ]
    assert unknown == []


def documents(**options: Any) -> grain.IterDataset:
    records = [{"tokens": np.arange(n)} for n in (3, 2)]
    return grain.MapDataset.source(records).to_iter_dataset().pack({"tokens": 4}, **options)


NUMBERS = grain.MapDataset.range(8)
STREAM = NUMBERS.to_iter_dataset()
SHARD = grain.sharding.ShardOptions(0, 2)

# Each pair differs in one argument that decides on the elements.
PAIRS = {
    "repeat": (NUMBERS.repeat(2), NUMBERS.repeat(2, reseed_each_epoch=False)),
    "window": (NUMBERS.window_shuffle(2, seed=1), NUMBERS.window_shuffle(2, seed=2)),
    "map with index": (NUMBERS.map_with_index(max), NUMBERS.map_with_index(min)),
    "split": NUMBERS.train_validation_split(validation=2, seed=1),
    "shard batches": (
        NUMBERS.shard_batches(SHARD, 2),
        NUMBERS.shard_batches(SHARD, 2, remainder="keep"),
    ),
    "elastic": (
        grain.experimental.ElasticIterator(NUMBERS, 2, SHARD),
        grain.experimental.ElasticIterator(NUMBERS, 4, SHARD),
    ),
    "batch_fn": (NUMBERS.batch(2, batch_fn=list), NUMBERS.batch(2, batch_fn=tuple)),
    "rekey": (NUMBERS.rekey({"a": "b"}), NUMBERS.rekey({"a": "c"})),
    "pad": (NUMBERS.pad_or_trim(3), NUMBERS.pad_or_trim(3, pad_value=1)),
    "limit": (STREAM.limit(2), STREAM.limit(3)),
    "repeat in order": (STREAM.repeat(2), STREAM.repeat(3)),
    "rebatch": (STREAM.batch(2).rebatch(3), STREAM.batch(2).rebatch(4)),
    "zip": (STREAM.zip(STREAM), STREAM.zip(STREAM, strict=False)),
    "nones": (STREAM, NUMBERS.to_iter_dataset(allow_nones=True)),
    "cache": (STREAM, STREAM.cache()),
    "unbatch": (STREAM.batch(2), STREAM.batch(2).unbatch()),
    "pack bins": (documents(num_packing_bins=2), documents(num_packing_bins=3)),
    "pack seed": (documents(num_packing_bins=2), documents(num_packing_bins=2, seed=1)),
    "pack strategy": (
        documents(num_packing_bins=2),
        documents(num_packing_bins=2, strategy="best_fit"),
    ),
    "concat then split": (
        documents(strategy="concat_then_split"),
        documents(strategy="concat_then_split", split_full_length_features=False),
    ),
    "records": (
        grain.experimental.TFRecordIterDataset("a"),
        grain.experimental.TFRecordIterDataset("b"),
    ),
}


@pytest.mark.parametrize("name", PAIRS)
def test_an_argument_that_decides_on_the_elements_is_in_the_fingerprint(name):
    one, other = map(lines, PAIRS[name])
    assert one != other


def test_the_share_of_a_host_is_not_part_of_an_elastic_pipeline():
    hosts = [
        lines(grain.experimental.ElasticIterator(NUMBERS, 4, grain.sharding.ShardOptions(*where)))
        for where in [(0, 2), (1, 2), (0, 1)]
    ]
    assert hosts[0] == hosts[1] == hosts[2]
    assert hosts[0][0] == "source: range(0, 8)"


def test_a_fingerprint_reads_from_the_sources_to_the_end():
    parts = {"web": NUMBERS.filter(bool), "code": NUMBERS}
    mixed = grain.IterDataset.mix(
        {name: part.to_iter_dataset() for name, part in parts.items()}, {"web": 2, "code": 1}
    )
    assert lines(grain.experimental.ZipIterDataset([mixed.batch(2), STREAM])) == [
        "[0] [code] source: range(0, 8)",
        "[0] [web] source: range(0, 8)",
        "[0] [web] operation: filter(transform=bool)",
        "[0] component: mix of code, web",
        "[0] weights: {'code': 100, 'web': 200}",
        "[0] operation: batch(batch_size=2)",
        "[1] source: range(0, 8)",
        "operation: zip(strict=True)",
    ]


def test_very_many_datasets_are_one_line():
    many = [grain.MapDataset.range(n, n + 9) for n in range(500)]
    others = [*many[:400], NUMBERS, *many[401:]]
    for join in (grain.MapDataset.concatenate, grain.MapDataset.mix):
        assert len(lines(join(many))) == 2
        assert lines(join(many)) != lines(join(others))
        assert lines(join(many))[0].startswith("source: 500 datasets: ")


def test_a_mixture_that_changes_names_what_is_new():
    def parts(*names):
        return {name: grain.MapDataset.range(ord(name), ord(name) + 9) for name in names}

    changed = grain.MapDataset.mix(parts("a", "b")).change_at(4, parts("b", "c"))
    changed = changed.change_at(6, parts("a", "c") | {"b": NUMBERS}, {"a": 1, "b": 2, "c": 1})
    assert lines(changed) == [
        "[a] source: range(97, 106)",
        "[b] source: range(98, 107)",
        "operation: mix(weights=[1, 1])",
        "[c, from 4] source: range(99, 108)",
        "component: from 4: mix of b, c",
        "weights: from 4: {'b': 1, 'c': 1}",
        "[b, from 6] source: range(0, 8)",
        "component: from 6: mix of a, b, c",
        "weights: from 6: {'a': 100, 'b': 200, 'c': 100}",
    ]


def test_a_fingerprint_is_the_same_in_another_process():
    program = (
        "import sys; sys.path.insert(0, sys.argv[1]); import test_lines as t\n"
        "for one, other in t.PAIRS.values(): print(t.lines(one), t.lines(other))"
    )
    folder = __file__.rpartition("test_lines")[0]
    given = [sys.executable, "-c", program, folder]
    output = subprocess.run(given, check=True, capture_output=True, text=True, timeout=100).stdout
    here = [f"{lines(one)} {lines(other)}" for one, other in PAIRS.values()]
    assert output.splitlines() == here


names = st.text(min_size=1, max_size=8)


@settings(deadline=None)
@given(st.sampled_from(KINDS), st.text(st.characters(exclude_categories=["Cc", "Zl", "Zp", "Cs"])))
def test_a_line_is_read_as_it_was_written(kind, text):
    line = Line(kind, text)
    assert Line.parse(str(line)) == line


@settings(deadline=None)
@given(st.lists(names, max_size=3))
def test_places_are_read_as_they_were_written(place):
    line = Line("source", "range(0, 3)", tuple(place))
    text = str(line)
    assert len(text.splitlines()) == 1
    assert Line.parse(text) == line


# --- texts of what users put in ------------------------------------------------------------------


class Color(enum.Enum):
    RED = 1


@dataclasses.dataclass
class Crop:
    size: int
    how: Any = None

    def apply(self, x):
        return x


class Plain:
    def __init__(self):
        self.rate = 0.5
        self.cache = object()
        self._calls = 3


class Failing:
    def __repr__(self):
        raise RuntimeError


TEXTS = [
    (None, "None"),
    (np.int64(3), "3"),
    (Color.RED, "Color.RED"),
    (len, "len"),
    (Crop, "Crop"),
    (Crop(3, how=Color.RED), "Crop(size=3, how=Color.RED)"),
    (Crop(3).apply, "Crop(size=3, how=None).apply"),
    (functools.partial(max, 3, key=len), "partial(max, 3, key=len)"),
    (Plain(), "Plain(rate=0.5)"),
    (Failing(), "Failing"),
    ({"b": [1, (2,)]}, "{'b': [1, (2)]}"),
    ({"y", "x"}, "{'x', 'y'}"),
    ("two\nlines", "'two\\nlines'"),
]


@pytest.mark.parametrize(("value", "text"), TEXTS, ids=[text for _, text in TEXTS])
def test_a_value_has_a_stable_text(value, text):
    assert stable_text(value) == text


def test_long_values_are_distinguished_by_a_digest():
    assert len(stable_text("x" * 10_000)) < 200
    assert stable_text(list(range(100))) != stable_text([*range(99), 0])
    assert stable_text(np.arange(1000)) != stable_text(np.arange(1000)[::-1])
    circle: list[Any] = []
    circle.append(circle)
    assert stable_text(circle)
