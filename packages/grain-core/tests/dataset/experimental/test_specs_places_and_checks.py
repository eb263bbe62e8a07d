"""Element specs, next indices, the resume check, elastic shards, and packing for a DataLoader."""

from __future__ import annotations

import itertools
import json
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import grain
from grain.experimental import (
    CacheIterDataset,
    ConcatThenSplitIterDataset,
    ElasticIterator,
    FirstFitPackIterDataset,
    InterleaveIterDataset,
    LimitIterDataset,
    PackAndBatchOperation,
    RebatchIterDataset,
    RepeatIterDataset,
    ShapeDtypeStruct,
    ShapeDtypeStructProtocol,
    ThreadPrefetchIterDataset,
    WindowShuffleIterDataset,
    ZipIterDataset,
    ZipMapDataset,
    assert_equal_output_after_checkpoint,
    device_put,
    get_element_spec,
    get_next_index,
    set_next_index,
)

from ...helpers.pipelines import INLINE, numbers

Shard = grain.sharding.ShardOptions


# Element specs


class Rows:
    """A source that tells what its records look like and fails the test when it is read."""

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
        (RebatchIterDataset(ROWS_ITER.batch(2), 5), x(None, 3)),
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


def test_a_dataset_of_ones_own_may_tell_its_spec() -> None:
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


# Next index

COUNTED = {
    "plain": lambda: numbers(9),
    "map": lambda: numbers(9).map(lambda v: v),
    "map_with_index": lambda: numbers(9).map_with_index(lambda i, v: (i, v)),
    "random_map": lambda: numbers(9).random_map(lambda v, rng: rng.random(), seed=1),
    "batch": lambda: numbers(9).batch(2),
    "batch_of_batch": lambda: numbers(9).batch(2).map(lambda v: v).batch(2, batch_fn=list),
    "limit": lambda: LimitIterDataset(numbers(9), 7),
    "thread": lambda: ThreadPrefetchIterDataset(numbers(9), prefetch_buffer_size=2),
    "one_interleaved": lambda: InterleaveIterDataset([numbers(9)], cycle_length=3),
}


@pytest.mark.parametrize("make", COUNTED.values(), ids=COUNTED.keys())
def test_the_next_index_counts_elements_and_can_be_set(
    make: Callable[[], Any], as_plain: Callable[[Any], Any]
) -> None:
    elements = as_plain(list(make()))
    iterator = iter(make())
    for index in range(len(elements)):
        assert get_next_index(iterator) == index
        next(iterator)
    assert get_next_index(iterator) == len(elements)
    for index in (0, 1, len(elements) - 1, len(elements)):
        set_next_index(iterator, index)
        assert get_next_index(iterator) == index
        assert as_plain(list(iterator)) == elements[index:]


@pytest.mark.parametrize(
    "make",
    [
        lambda: numbers(5).filter(lambda v: True),
        lambda: WindowShuffleIterDataset(numbers(5), window_size=2, seed=1),
        lambda: RepeatIterDataset(numbers(5), 2),
        lambda: InterleaveIterDataset([numbers(2), numbers(2)], cycle_length=2),
    ],
)
def test_an_index_that_is_no_matter_of_arithmetic_is_an_error(make: Callable[[], Any]) -> None:
    with pytest.raises(NotImplementedError, match="get_next_index is not supported"):
        get_next_index(iter(make()))
    with pytest.raises(NotImplementedError, match="set_next_index is not supported"):
        set_next_index(iter(make()), 1)


def test_wrong_indices_are_errors() -> None:
    iterator = iter(numbers(5))
    with pytest.raises(IndexError, match="out of range"):
        set_next_index(iterator, 6)
    with pytest.raises(IndexError, match="out of range"):
        set_next_index(iterator, -1)
    with pytest.raises(TypeError, match="integer"):
        set_next_index(iterator, "2")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="DatasetIterator"):
        get_next_index([1])  # type: ignore[arg-type]


# The resume check


def test_the_resume_check_accepts_what_resumes() -> None:
    assert_equal_output_after_checkpoint(numbers(6).batch(4))
    assert_equal_output_after_checkpoint(grain.MapDataset.range(4))
    assert_equal_output_after_checkpoint(numbers(3).map(lambda v: {"a": np.nan, "b": [v]}))


class Forgetful(grain.IterDataset):
    """Counts to four, and forgets in its state how far it was."""

    def __iter__(self) -> grain.DatasetIterator:
        class Count(grain.DatasetIterator):
            def __init__(self) -> None:
                super().__init__()
                self.count = 0

            def __next__(self) -> int:
                if self.count == 4:
                    raise StopIteration
                self.count += 1
                return self.count

            def get_state(self) -> dict[str, int]:
                return {}

            def set_state(self, state: dict[str, int]) -> None:
                self.count = 0

        return Count()


def test_the_resume_check_refuses_a_state_that_forgets() -> None:
    with pytest.raises(AssertionError, match="mismatch at step 1"):
        assert_equal_output_after_checkpoint(Forgetful())


def test_the_resume_check_refuses_elements_that_change() -> None:
    calls = iter(range(1000))
    with pytest.raises(AssertionError, match="mismatch at step 0"):
        assert_equal_output_after_checkpoint(numbers(3).map(lambda v: next(calls)))


def test_the_resume_check_refuses_an_empty_dataset() -> None:
    with pytest.raises(AssertionError, match="did not produce any elements"):
        assert_equal_output_after_checkpoint(numbers(0))


# Elastic shards


def elastic(length: int, batch: int, index: int, count: int, **options: Any) -> ElasticIterator:
    return ElasticIterator(
        grain.MapDataset.range(length), batch, Shard(index, count), read_options=INLINE, **options
    )


@pytest.mark.parametrize("length", [3, 19, 20, 21, 23])
@pytest.mark.parametrize("count", [1, 2, 4])
def test_shards_give_equally_many_batches_and_the_same_global_ones(length: int, count: int) -> None:
    shards = [[b.tolist() for b in elastic(length, 4, i, count)] for i in range(count)]
    assert {len(shard) for shard in shards} == {length // 4}
    for number, parts in enumerate(zip(*shards, strict=True)):
        assert sorted(itertools.chain(*parts)) == list(range(4 * number, 4 * number + 4))


@pytest.mark.parametrize("before", [1, 2, 4])
@pytest.mark.parametrize("after", [1, 2, 4])
def test_training_goes_on_with_another_number_of_shards(before: int, after: int) -> None:
    saved = elastic(24, 4, 0, before)
    next(saved), next(saved)
    state = json.loads(json.dumps(saved.get_state()))
    assert state == {"global_next_index": 8}
    rest: list[int] = []
    for index in range(after):
        shard = elastic(24, 4, index, after)
        shard.set_state(state)
        assert shard.get_state() == state
        for batch in shard:
            rest += batch.tolist()
    assert sorted(rest) == list(range(8, 24))


def test_an_elastic_iterator_is_one_iterator_and_a_dataset() -> None:
    it = elastic(20, 4, 0, 2)
    assert next(it).tolist() == [0, 2]
    assert next(iter(it)).tolist() == [4, 6]
    mapped = iter(it.map(lambda batch: batch + 1))
    assert next(mapped).tolist() == [9, 11]
    assert it.get_state() == mapped.get_state() == {"global_next_index": 12}
    it.close()
    with pytest.raises(ValueError, match="closed"):
        next(it)


def test_elastic_shards_resume_twice(resumes: Callable[..., Any]) -> None:
    resumes(lambda: elastic(23, 6, 1, 3))


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: elastic(10, 3, 0, 2), ValueError, "not divisible"),
        (lambda: elastic(10, 0, 0, 2), ValueError, "global_batch_size"),
        (lambda: ElasticIterator([1, 2, 3], 4, Shard(0, 2)), TypeError, "MapDataset"),
        (lambda: ElasticIterator(grain.MapDataset.range(5), 4, 2), TypeError, "shard_options"),
        (
            lambda: ElasticIterator(
                grain.MapDataset.range(9).shard_batches(Shard(0, 2), 2), 4, Shard(0, 2)
            ),
            ValueError,
            "part of one shard already",
        ),
    ],
)
def test_wrong_use_of_elastic_shards_is_refused_when_built(
    make: Callable[[], Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        make()


# Packing for a DataLoader


def test_packed_batches_of_a_loader() -> None:
    records = [{"x": np.arange(1, n + 1)} for n in (1, 2, 3, 2, 2, 1)]
    loader = grain.DataLoader(
        data_source=records,
        sampler=grain.samplers.SequentialSampler(len(records), grain.sharding.NoSharding()),
        operations=[PackAndBatchOperation(length_struct={"x": 4}, batch_size=2)],
    )
    batches = list(loader)
    values, ids, positions = batches[0]
    assert values["x"].tolist() == [[1, 1, 2, 0], [1, 2, 3, 0]]
    assert ids["x"].tolist() == [[1, 2, 2, 0], [1, 1, 1, 0]]
    assert positions["x"].tolist() == [[0, 0, 1, 0], [0, 1, 2, 0]]
    assert batches[1][0]["x"].tolist() == [[1, 2, 1, 2], [1, 0, 0, 0]]
    iterator = iter(loader)
    next(iterator)
    restored = iter(loader)
    restored.set_state(iterator.get_state())
    assert [b[0]["x"].tolist() for b in restored] == [batches[1][0]["x"].tolist()]


def test_packed_batches_take_any_tree_and_respect_limits() -> None:
    record = grain.python.Record
    metadata = grain.python.RecordMetadata
    records = [record(metadata(index=n, record_key=n), (np.full(n, n),)) for n in (1, 2, 1)]
    operation = PackAndBatchOperation(length_struct=(5,), batch_size=1, max_sequences_per_bin=2)
    made = list(operation(iter(records)))
    assert [r.data[0][0].tolist() for r in made] == [[[1, 2, 2, 0, 0]], [[1, 0, 0, 0, 0]]]
    assert [r.metadata.index for r in made] == [2, 1]
    assert list(operation(iter([]))) == []
    (alone,) = PackAndBatchOperation(length_struct=(2,), batch_size=2)(iter(records[:1]))
    assert [tree[0].tolist() for tree in alone.data] == [
        [[1, 0], [0, 0]],
        [[1, 0], [0, 0]],
        [[0, 0], [0, 0]],
    ]


@pytest.mark.parametrize(
    ("data", "message"),
    [({"x": np.arange(5)}, "truncated"), ({"y": np.arange(2)}, "structure")],
)
def test_records_that_cannot_be_packed_are_errors(data: Any, message: str) -> None:
    record = grain.python.Record(grain.python.RecordMetadata(index=0, record_key=0), data)
    with pytest.raises(ValueError, match=message):
        list(PackAndBatchOperation(length_struct={"x": 4}, batch_size=1)(iter([record])))


@pytest.mark.parametrize(
    "wrong", [{"batch_size": 0}, {"max_sequences_per_bin": 0}, {"length_struct": {"x": -1}}]
)
def test_wrong_options_of_the_loader_operation_are_refused_when_built(wrong: Any) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        PackAndBatchOperation(**({"length_struct": {"x": 4}, "batch_size": 2} | wrong))


# Devices


def test_device_put_moves_elements_or_says_what_to_install() -> None:
    try:
        import jax
    except ImportError:
        with pytest.raises(ImportError, match=r"grain-core\[jax\]"):
            device_put(numbers(3), None)
        return
    ds = device_put(numbers(6).batch(2), jax.devices()[0])
    iterator = iter(ds)
    assert isinstance(next(iterator), jax.Array)
    assert iterator.get_state() == {"next_index": 2}
    assert [batch.tolist() for batch in iterator] == [[2, 3], [4, 5]]
