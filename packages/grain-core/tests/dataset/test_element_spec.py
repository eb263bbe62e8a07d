"""Specs are inferred without reading an element."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

import grain
from grain.experimental import (
    CacheIterDataset,
    ConcatThenSplitIterDataset,
    FirstFitPackIterDataset,
    InterleaveIterDataset,
    LimitIterDataset,
    RebatchIterDataset,
    RepeatIterDataset,
    ShapeDtypeStruct,
    ShapeDtypeStructProtocol,
    ThreadPrefetchIterDataset,
    WindowShuffleIterDataset,
    ZipIterDataset,
    ZipMapDataset,
    get_element_spec,
)


class Rows:
    """A source with an element spec that fails the test when it is read."""

    element_spec = {"x": ShapeDtypeStruct((3,), np.float32)}

    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int) -> Any:
        raise AssertionError("a spec must not read records")


ROWS = grain.MapDataset.source(Rows())


ROWS_ITER = ROWS.to_iter_dataset()


def x(*shape: int | None) -> dict[str, ShapeDtypeStruct]:
    return {"x": ShapeDtypeStruct(shape, np.float32)}


class Doubled(grain.transforms.Map):
    def map(self, element: Any) -> Any:
        return {"x": np.concatenate([element["x"]] * 2)}

    def output_spec(self, input_spec: Any) -> Any:
        spec = input_spec["x"]
        return {"x": ShapeDtypeStruct((2 * spec.shape[0],), spec.dtype)}


@pytest.mark.parametrize(
    ("dataset", "expected"),
    [
        (ROWS, x(3)),
        (ROWS.shuffle(1).repeat(2)[2:9], x(3)),
        (ROWS.filter(lambda _: True), x(3)),
        (ROWS.batch(2), x(None, 3)),
        (ROWS.batch(2, drop_remainder=True), x(2, 3)),
        (ROWS.map(Doubled()), x(6)),
        (ROWS_ITER.map(Doubled()).batch(4, drop_remainder=True), x(4, 6)),
        (ROWS_ITER.filter(lambda _: True).batch(2), x(None, 3)),
        (ROWS_ITER.seed(1).mp_prefetch(grain.MultiprocessingOptions(num_workers=2)), x(3)),
        (grain.MapDataset.mix([ROWS, ROWS]), x(3)),
        (grain.IterDataset.mix([ROWS_ITER, ROWS_ITER]), x(3)),
        (ZipMapDataset([ROWS, ROWS]), (x(3), x(3))),
        (ZipIterDataset([ROWS_ITER, ROWS_ITER]), (x(3), x(3))),
        (InterleaveIterDataset([ROWS, ROWS], cycle_length=2), x(3)),
        (RepeatIterDataset(CacheIterDataset(LimitIterDataset(ROWS_ITER, 2)), 2), x(3)),
        (WindowShuffleIterDataset(ROWS_ITER, window_size=2, seed=1), x(3)),
        (ThreadPrefetchIterDataset(ROWS_ITER, prefetch_buffer_size=1), x(3)),
        (RebatchIterDataset(ROWS_ITER.batch(2), 5), x(5, 3)),
        (RebatchIterDataset(ROWS_ITER.batch(2), 5, drop_remainder=True), x(5, 3)),
        (grain.MapDataset.range(3), ShapeDtypeStruct((), np.int64)),
        (grain.MapDataset.source(np.zeros((4, 2), np.int8)), ShapeDtypeStruct((2,), np.int8)),
    ],
)
def test_a_spec_is_known_without_reading(dataset: Any, expected: Any) -> None:
    assert get_element_spec(dataset) == expected


@pytest.mark.parametrize("packer", [FirstFitPackIterDataset, ConcatThenSplitIterDataset])
def test_the_spec_of_packed_elements_is_what_they_are(packer: Any) -> None:
    docs = [{"a": np.arange(3, dtype=np.int16), "m": np.ones((1, 2))}]
    options = {"num_packing_bins": 1} if packer is FirstFitPackIterDataset else {}
    ds = packer(
        grain.MapDataset.source(docs).to_iter_dataset(),
        length_struct={"a": 5, "m": 2},
        meta_features=("m",),
        **options,
    )
    element = next(iter(ds))
    assert get_element_spec(ds) == {
        name: ShapeDtypeStruct(value.shape, value.dtype) for name, value in element.items()
    }


def test_a_users_dataset_may_define_its_spec() -> None:
    class Own(grain.MapDataset):
        def __len__(self) -> int:
            return 2

        def __getitem__(self, index: Any) -> Any:
            raise AssertionError

        @property
        def _element_spec(self) -> Any:
            return ShapeDtypeStruct((7,), np.int32)

    assert get_element_spec(Own().batch(2)) == ShapeDtypeStruct((None, 7), np.int32)


@pytest.mark.parametrize(
    ("dataset", "error", "message"),
    [
        (ROWS.map(len), ValueError, "output_spec"),
        (ROWS.batch(2, batch_fn=list), NotImplementedError, "custom batching"),
        (grain.MapDataset.source("abc"), NotImplementedError, "element_spec"),
        (5, TypeError, "int"),
    ],
)
def test_what_cannot_be_known_is_an_error_that_says_what_to_do(
    dataset: Any, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        get_element_spec(dataset)


def test_a_spec_is_a_value() -> None:
    spec = ShapeDtypeStruct((2, None), np.int32)
    assert spec == ShapeDtypeStruct(shape=[2, None], dtype="int32")
    assert hash(spec) == hash(ShapeDtypeStruct((2, None), np.dtype(np.int32)))
    assert spec != ShapeDtypeStruct((2, 3), np.int32)
    assert pickle.loads(pickle.dumps(spec)) == spec
    assert isinstance(spec, ShapeDtypeStructProtocol)
    assert isinstance(np.ones(3), ShapeDtypeStructProtocol)
    with pytest.raises(AttributeError, match="cannot assign"):
        spec.shape = (1,)  # type: ignore[misc]
