"""Common mistakes raise an error with advice."""

from __future__ import annotations

import copy
import pathlib
import pickle
import re
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import polars as pl
import pytest

import grain

LOCK = threading.Lock()


class AddOne(grain.transforms.Map):
    def map(self, element: int) -> int:
        return element + 1


class Counting(grain.IterDataset):
    """As one would write it for torch."""

    def __iter__(self) -> Iterator[int]:
        yield from range(5)


@pytest.mark.parametrize("name", ["mp_prefetch", "pack", "limit", "rebatch"])
def test_an_operation_of_iter_datasets_says_to_convert_first(name) -> None:
    with pytest.raises(AttributeError, match=rf"'{name}': .*call `to_iter_dataset\(\)` before it"):
        getattr(grain.MapDataset.range(3), name)


@pytest.mark.parametrize("name", ["shuffle", "slice", "train_validation_split"])
def test_an_operation_of_map_datasets_says_to_call_it_earlier(name) -> None:
    with pytest.raises(AttributeError, match=rf"'{name}': .*call it before `to_iter_dataset\(\)`"):
        getattr(grain.MapDataset.range(3).to_iter_dataset(), name)


@pytest.mark.parametrize("name", ["get_state", "set_state"])
@pytest.mark.parametrize("stream", [False, True])
def test_what_an_iterator_has_says_to_make_one(name, stream) -> None:
    ds: Any = grain.MapDataset.range(3)
    with pytest.raises(AttributeError, match=rf"'{name}': .*`iterator = iter\(ds\)`"):
        getattr(ds.to_iter_dataset() if stream else ds, name)


def test_an_unknown_name_stays_the_error_of_python() -> None:
    for ds in (grain.MapDataset.range(3), grain.MapDataset.range(3).to_iter_dataset()):
        with pytest.raises(AttributeError, match=r"object has no attribute 'shufle'$") as raised:
            ds.shufle  # noqa: B018
        assert (raised.value.name, raised.value.obj) == ("shufle", ds)
        assert not hasattr(ds, "pak")
        assert not hasattr(ds, "_nothing")
        assert [*copy.copy(ds)] == [*pickle.loads(pickle.dumps(ds))] == [0, 1, 2]


def test_an_attribute_error_inside_of_a_property_is_raised_unchanged() -> None:
    class Mine(grain.MapDataset):
        @property
        def other(self) -> Any:
            return self.inner.limit

        def __len__(self) -> int:
            return 1

        def __getitem__(self, index: Any) -> Any:
            return index

    with pytest.raises(AttributeError, match="no attribute 'inner'"):
        Mine().other  # noqa: B018


@pytest.mark.parametrize("stream", [False, True])
def test_a_class_in_place_of_its_instance_is_refused(stream) -> None:
    ds: Any = grain.MapDataset.range(3)
    if stream:
        ds = ds.to_iter_dataset()
    with pytest.raises(
        TypeError, match=r"got the class AddOne itself. Call it: `map\(AddOne\(\)\)`"
    ):
        ds.map(AddOne)
    assert list(ds.map(str)) == ["0", "1", "2"]


def test_a_class_among_operations_is_refused() -> None:
    with pytest.raises(
        TypeError, match=r"operations\[0\] is the class AddOne itself.*`AddOne\(\)`"
    ):
        grain.load([1, 2], transformations=[AddOne])


def test_a_function_of_one_element_among_operations_gets_advice() -> None:
    loader = grain.load([1, 2], num_epochs=1, transformations=[lambda x: x + 1])
    with pytest.raises(TypeError) as raised:
        list(loader)
    assert "extends grain.transforms.Map" in raised.value.__notes__[0]


def test_a_dictionary_without_names_is_read_by_its_keys() -> None:
    ds = grain.MapDataset.source({"x": np.arange(3), 7: np.arange(3)})
    with pytest.raises(KeyError) as raised:
        ds[0]
    assert "ColumnarDataSource" in raised.value.__notes__[0]
    assert list(grain.MapDataset.source({0: "a", 1: "b"})) == ["a", "b"]


def test_batching_says_which_feature_differs() -> None:
    rows = [{"id": 1, "in": {"x": np.zeros(2)}}, {"id": 2, "in": {"x": np.zeros(3)}}]
    with pytest.raises(
        ValueError, match=re.escape("The difference is at ['in']['x'] of each element.")
    ):
        grain.MapDataset.source(rows).batch(2)[0]


def test_a_stream_written_as_a_generator_gets_advice() -> None:
    assert list(Counting()) == [0, 1, 2, 3, 4]
    for ds in (Counting().map(str), Counting().batch(2), Counting().filter(bool)):
        with pytest.raises(TypeError, match=r"got a generator.*extends grain\.DatasetIterator"):
            list(ds)


def test_what_cannot_go_to_workers_is_named_as_the_user_wrote_it() -> None:
    ds = grain.MapDataset.range(3).map(lambda x: (LOCK, x)).to_iter_dataset()
    with pytest.raises(TypeError) as raised:
        list(ds.mp_prefetch(grain.MultiprocessingOptions(num_workers=1)))
    message = str(raised.value)
    assert re.match(r"Cannot send MapMapDataset\(transform=<lambda> @ .*:\d+\) to worker", message)
    assert "global 'LOCK' is a _thread.lock" in message
    assert "_parts" not in message


@pytest.mark.parametrize("path", ["data/*.parquet", "train.parquet", "s3://bucket/a.parquet"])
def test_a_path_in_place_of_a_source_is_warned_of(path) -> None:
    with pytest.warns(UserWarning, match=re.escape(f"grain.sources.open({path!r})")) as warned:
        ds = grain.MapDataset.source(path)
    assert warned[0].filename == __file__
    assert list(ds) == list(path)


@pytest.mark.parametrize("text", ["abc", "a b.c", "end.", ""])
def test_a_text_that_is_no_path_is_a_source_like_any_other(text) -> None:
    assert list(grain.MapDataset.source(text)) == list(text)


def test_what_can_only_be_iterated_over_says_what_to_make_of_it() -> None:
    for source in (iter([1]), {1, 2}, (x for x in "ab")):
        with pytest.raises(TypeError, match=r"Make a list of it, or .*IterDataset.from_iterable"):
            grain.MapDataset.source(source)
    with pytest.raises(TypeError, match=r"If it returns an iterable, .*IterDataset.from_iterable"):
        grain.MapDataset.source(lambda: iter([1]))
    with pytest.raises(TypeError, match=r"open it with `grain.sources.open\('a.parquet'\)`"):
        grain.MapDataset.source(pathlib.PurePosixPath("a.parquet"))
    with pytest.raises(TypeError, match=r"pass `frame.collect\(\)`"):
        grain.MapDataset.source(pl.LazyFrame({"x": [1]}))
    with pytest.raises(TypeError, match=r"It is a stream already"):
        grain.MapDataset.source(grain.MapDataset.range(3).to_iter_dataset())


def test_the_number_of_workers_may_be_given_without_options() -> None:
    ds = grain.MapDataset.range(3).to_iter_dataset()
    assert "num_workers=1, per_worker_buffer_size=2" in str(
        ds.mp_prefetch(num_workers=1, per_worker_buffer_size=2)
    )
    assert ds.mp_prefetch(num_workers=0) is ds
    with pytest.raises(TypeError, match="Give either: mp_prefetch"):
        ds.mp_prefetch(grain.MultiprocessingOptions(num_workers=1), num_workers=2)
    with pytest.raises(TypeError, match=r"write mp_prefetch\(num_workers=2\)"):
        ds.mp_prefetch(2)  # type: ignore[arg-type]


@pytest.mark.parametrize("strategy", ["first_fit", "best_fit"])
def test_packing_elements_that_are_too_long_says_how_to_cut_them(strategy) -> None:
    ds = grain.MapDataset.source([{"tokens": np.arange(9)}]).to_iter_dataset()
    with pytest.raises(ValueError, match="must be truncated") as raised:
        next(iter(ds.pack({"tokens": 4}, strategy=strategy)))
    advice = raised.value.__notes__[0]
    assert "`.map(lambda e: e | {'tokens': e['tokens'][:4]})`" in advice
    cut = ds.map(lambda e: e | {"tokens": e["tokens"][:4]})
    assert len(list(cut.pack({"tokens": 4}, strategy=strategy))) == 1


def fail(x: int) -> int:
    raise ValueError(f"no {x}")


@pytest.mark.parametrize("named", [True, False])
@pytest.mark.parametrize("level", ["by index", "map", "iter", "workers"])
def test_an_error_inside_of_a_mixture_names_the_component(named, level) -> None:
    parts: Any = [grain.MapDataset.range(5), grain.MapDataset.range(5).map(fail)]
    if level == "iter":
        parts = [part.to_iter_dataset() for part in parts]
    given = {"code": parts[0], "web": parts[1]} if named else parts
    kind = grain.IterDataset if level == "iter" else grain.MapDataset
    ds: Any = kind.mix(given)  # type: ignore[arg-type]
    if level == "workers":
        ds = ds.to_iter_dataset().mp_prefetch(num_workers=1)
    with pytest.raises(ValueError, match="no 0") as raised:
        ds[1] if level == "by index" else list(ds)
    component = "'web'" if named else "1"
    assert f"grain: read from component {component} of the mixture." in raised.value.__notes__
    assert any("fail" in note for note in raised.value.__notes__)


def test_an_error_inside_of_a_concatenation_names_the_dataset() -> None:
    ds = grain.MapDataset.concatenate(
        [grain.MapDataset.range(2), grain.MapDataset.range(2).map(fail)]
    )
    with pytest.raises(ValueError, match="no 0") as raised:
        list(ds)
    assert any("read from dataset 1 of" in note for note in raised.value.__notes__)
