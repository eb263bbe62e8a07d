"""`repr` of a dataset: the pipeline as one would write it, with what is known without reading."""

from __future__ import annotations

import textwrap
from typing import Any

import numpy as np
import polars as pl
import pytest

import grain

Map = grain.MapDataset


def double(x: Any) -> Any:
    return x * 2


def check(ds: Any, expected: str) -> None:
    assert repr(ds) == textwrap.dedent(expected).strip("\n")


def test_a_chain_is_shown_with_lengths_and_specs_where_they_change():
    ds = Map.source(np.zeros((10, 3), np.float32)).seed(4).shuffle().batch(4).map(double)
    check(
        ds.to_iter_dataset().mp_prefetch(num_workers=2),
        """
        MapDataset.source(<float32 array of shape (10, 3)>)  # 10 x float32[3]
            .seed(4)
            .shuffle()
            .batch(4)     # 3 x float32[?, 3]
            .map(double)  # 3 elements
            .to_iter_dataset()
            .mp_prefetch(num_workers=2)
        """,
    )


def test_filters_endless_datasets_and_slices_say_what_is_known():
    check(
        Map.range(2, 9).filter(bool).repeat()[3:9:2].to_iter_dataset().batch(2),
        """
        MapDataset.range(2, 9)  # 7 x int64
            .filter(bool)       # up to 7 x int64
            .repeat()           # endless x int64
            [3:9:2]             # up to 3 x int64
            .to_iter_dataset()  # elements: int64
            .batch(2)           # elements: int64[?]
        """,
    )


def test_mixtures_are_nested():
    check(
        Map.mix({"b": Map.range(4), "a": Map.range(3).shuffle(seed=1)}, {"a": 1, "b": 3}).batch(2),
        """
        MapDataset.mix({
            'a': MapDataset.range(3)   # 3 x int64
                .shuffle(seed=1),
            'b': MapDataset.range(4),  # 4 x int64
        }, weights={'a': 1, 'b': 3})   # 5 x int64
            .batch(2)                  # 3 x int64[?]
        """,
    )


class Unreadable:
    def __len__(self) -> int:
        return 5

    def __getitem__(self, index: int) -> Any:
        raise AssertionError("repr must not read")

    def __repr__(self) -> str:
        return "Unreadable()"


class Broken(grain.transforms.Map):
    def map(self, element: Any) -> Any:
        return element

    def output_spec(self, spec: Any) -> Any:
        raise RuntimeError("no spec")

    def __repr__(self) -> str:
        raise RuntimeError("no text")


class Own(grain.IterDataset):
    def __iter__(self) -> Any:
        raise AssertionError("repr must not read")


@pytest.mark.parametrize(
    "make",
    [
        lambda: Map.source(Unreadable()).map(Broken()).to_iter_dataset(),
        lambda: Own(Map.source(Unreadable()).to_iter_dataset()).limit(3),
        lambda: Own(),
        lambda: Map.source(Unreadable()).batch(2, batch_fn=list),
        lambda: Map.source([]),
        lambda: Map.concatenate([Map.range(3)] * 20).slice([1, 2]),
        lambda: Map.range(3).zip(Map.range(3)).to_iter_dataset().window_shuffle(2, seed=1),
        lambda: Map.source([{"t": np.arange(3)}]).to_iter_dataset().pack({"t": 8}),
        lambda: Map.range(10).shard_batches(grain.ShardOptions(0, 2), 2),
        lambda: grain.experimental.InterleaveIterDataset([Map.range(3)] * 5, cycle_length=2),
    ],
)
def test_no_element_is_read_and_no_text_has_an_address(make):
    text = repr(make())
    assert text
    assert " at 0x" not in text


def test_str_and_fingerprints_stay_as_they_were():
    ds = Map.range(4).batch(2)
    assert str(ds) == f"{ds}" == "BatchMapDataset(batch_size=2, drop_remainder=False)"
    assert [str(line) for line in Own().fingerprint()] == ["source: Own"]
    nested = [str(line) for line in Map.source(Map.range(4)).fingerprint()]
    assert nested == ["source: RangeMapDataset(start=0, step=1, stop=4), 4 records"]


def test_a_source_whose_text_has_many_lines_is_shown_by_its_type():
    series = pl.Series("x", [1, 2, 3])
    assert repr(Map.source(series)) == "MapDataset.source(<Series of 3>)  # 3 elements"
