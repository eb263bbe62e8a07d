"""DataLoader: what it refuses, what it tells of itself, and records of every kind."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import grain
from grain.sharding import NoSharding, ShardOptions

from ..helpers.pipelines import INLINE

IndexSampler = grain.samplers.IndexSampler
Batch = grain.transforms.Batch


def loader(
    source: Any = "abcdefgh", *operations: Any, sampler: Any = None, **options: Any
) -> grain.DataLoader:
    if sampler is None:
        sampler = IndexSampler(len(source), num_epochs=1, shard_options=NoSharding(), seed=1)
    given_options = {"read_options": INLINE, "worker_count": 0} | options
    return grain.DataLoader(
        data_source=source, sampler=sampler, operations=list(operations), **given_options
    )


class Double(grain.transforms.Map):
    def map(self, element: Any) -> Any:
        return element * 2


class Mark(grain.transforms.Map):
    def map(self, element: Any) -> Any:
        return "seen", element


class BadToNone(grain.transforms.Map):
    def map(self, element: Any) -> Any:
        return None if element == 1 else element


class IsThere(grain.transforms.Filter):
    def filter(self, element: Any) -> bool:
        return element is not None


class Draw(grain.transforms.RandomMap):
    def random_map(self, element: Any, rng: np.random.Generator) -> Any:
        return element, int(rng.integers(1000))


class Pieces(grain.experimental.FlatMapTransform):
    max_fan_out = 4

    def flat_map(self, element: Any) -> list[Any]:
        return [element] * 2


class OwnSampler:
    """A sampler of a user: no shard options, perhaps no length."""

    def __init__(self, key: Any = lambda index: index, length: int = 4):
        self.key = key
        self.length = length

    def __getitem__(self, index: int) -> Any:
        if index >= self.length:
            raise IndexError(index)
        return grain.RecordMetadata(index=index, record_key=self.key(index))


class LongSampler(OwnSampler):
    def __len__(self) -> int:
        return self.length


# --- what is refused -----------------------------------------------------------------------------

REFUSED: dict[str, tuple[Any, type[Exception], str]] = {
    "worker_count -1": (lambda: loader(worker_count=-1), ValueError, "worker_count is -1"),
    "worker_count 'a'": (
        lambda: loader(worker_count="a"),
        TypeError,
        "worker_count must be an integer",
    ),
    "worker_count 1.0": (lambda: loader(worker_count=1.0), TypeError, "got 1.0 of type float"),
    "sampler 3": (lambda: loader(sampler=3), TypeError, r"__getitem__\(index\).*got 3 of type int"),
    "sampler without shard options": (
        lambda: loader(sampler=LongSampler()),
        ValueError,
        r"No shard options were provided.*LongSampler has none either.*NoSharding\(\)",
    ),
    "shard_options 3": (
        lambda: loader(shard_options=3),
        TypeError,
        "shard_options must be a grain.sharding.ShardOptions, got 3 of type int",
    ),
    "read_options 3": (lambda: loader(read_options=3), TypeError, "grain.ReadOptions, got 3"),
    "worker_init_fn 3": (lambda: loader(worker_init_fn=3), TypeError, "worker_init_fn must be"),
    "operations 3": (
        lambda: grain.DataLoader(data_source="ab", sampler=IndexSampler(2), operations=3),
        TypeError,
        "operations must be a sequence of grain.transforms objects, got 3 of type int",
    ),
    "operations as text": (
        lambda: grain.DataLoader(data_source="ab", sampler=IndexSampler(2), operations="ab"),
        TypeError,
        "sequence of grain.transforms objects, got 'ab'",
    ),
    "an operation 3": (
        lambda: loader("ab", Double(), 3),
        TypeError,
        r"operations\[1\] is 3 of type int; expected a Map, RandomMap, Filter, FlatMap or Batch",
    ),
    "batch of 0": (
        lambda: loader("ab", Batch(0)),
        ValueError,
        "batch_size must be positive. Got 0",
    ),
    "no source": (lambda: loader(None, sampler=IndexSampler(2)), TypeError, "got NoneType"),
    "source without length": (
        lambda: loader(iter("ab"), sampler=IndexSampler(2)),
        TypeError,
        "which has no `__len__`",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_loader_refuses(name):
    build, error, message = REFUSED[name]
    with pytest.raises(error, match=f"(?s){message}"):
        build()


def test_everything_is_given_by_name():
    with pytest.raises(TypeError, match="positional"):
        grain.DataLoader("ab", IndexSampler(2))


# --- what it tells of itself ---------------------------------------------------------------------


def test_a_loader_shows_what_it_is_made_of_also_by_the_names_that_adapters_read():
    source, operations = list("abcd"), [Double(), Batch(2)]
    sampler = IndexSampler(4, num_epochs=1, shard_options=ShardOptions(1, 2))
    read_options = grain.ReadOptions(num_threads=3, prefetch_buffer_size=5)
    made = grain.DataLoader(
        data_source=source,
        sampler=sampler,
        operations=operations,
        worker_count=2,
        worker_buffer_size=7,
        read_options=read_options,
        enable_profiling=True,
    )
    workers = grain.MultiprocessingOptions(
        num_workers=2, per_worker_buffer_size=7, enable_profiling=True
    )
    assert made.data_source is made._data_source is source
    assert made.sampler is made._sampler is sampler
    assert made.operations == made._operations == tuple(operations)
    assert made.shard_options == made._shard_options == ShardOptions(1, 2)
    assert made.read_options == made._read_options == read_options
    assert made.multiprocessing_options == made._multiprocessing_options == workers


def test_the_repr_names_source_sampler_operations_and_workers():
    text = repr(loader(["a"], Batch(2), sampler=IndexSampler(1, num_epochs=1)))
    for part in (
        "data_source=['a']",
        "IndexSampler(num_records=1",
        "batch_size=2",
        "num_workers=0",
    ):
        assert part in text


def test_shard_options_of_the_loader_go_before_those_of_the_sampler():
    sampler = IndexSampler(4, num_epochs=1, shard_options=ShardOptions(1, 2))
    assert loader("abcd", sampler=sampler, shard_options=NoSharding()).shard_options == NoSharding()


@pytest.mark.parametrize(
    ("operations", "length"),
    [
        ((), 8),
        ((Double(),), 8),
        ((Draw(), Double()), 8),
        ((Batch(3),), 3),
        ((Batch(3, drop_remainder=True), Mark()), 2),
        ((Draw(), Batch(3)), 3),
    ],
)
def test_the_length_is_the_number_of_elements_where_it_is_known(operations, length):
    made = loader("abcdefgh", *operations)
    assert len(made) == length == len(list(made))


@pytest.mark.parametrize("operation", [IsThere(), Pieces(), lambda records: records])
def test_the_length_is_a_type_error_where_only_reading_tells(operation):
    with pytest.raises(TypeError, match="known only by reading"):
        len(loader("abcd", operation))


def test_a_loader_is_true_whatever_its_length():
    assert loader("a", Batch(2, drop_remainder=True))
    assert len(loader("a", Batch(2, drop_remainder=True))) == 0


def test_a_loader_can_be_iterated_again_from_the_start():
    made = loader("abc", Double())
    assert list(made) == list(made) == ["aa", "bb", "cc"]


def test_a_loader_can_be_pickled():
    made = loader("abcd", Double(), Draw(), Batch(2))
    copied = pickle.loads(pickle.dumps(made))
    for one, other in zip(made, copied, strict=True):
        assert [part.tolist() for part in one] == [part.tolist() for part in other]


# --- records -------------------------------------------------------------------------------------


def test_functions_see_records_that_are_none():
    assert list(loader([1, None, 3])) == [1, None, 3]
    assert list(loader([1, None], Mark())) == [("seen", 1), ("seen", None)]
    assert list(loader([1, None, 3], IsThere())) == [1, 3]
    assert list(loader([1, None], Batch(2, batch_fn=list))) == [[1, None]]


@pytest.mark.parametrize("others", [(), (Draw(),)])
def test_records_that_a_function_made_none_can_be_filtered_out(others):
    found = list(loader([0, 1, 2], BadToNone(), IsThere(), *others))
    assert [element[0] if others else element for element in found] == [0, 2]


def test_a_filter_between_operations_changes_no_draws():
    every = dict(loader(range(12), Draw()))

    class Even(grain.transforms.Filter):
        def filter(self, element: int) -> bool:
            return element % 2 == 0

    assert dict(loader(range(12), Even(), Draw())) == {x: every[x] for x in range(0, 12, 2)}


def test_a_random_map_without_a_seed_says_what_is_missing():
    sampler = IndexSampler(3, num_epochs=1, shard_options=NoSharding())
    with pytest.raises(ValueError, match=r"the sampler has none for.*Give the sampler a seed"):
        list(loader("abc", Draw(), sampler=sampler))


def test_pieces_of_a_record_come_one_after_the_other():
    assert list(loader("ab", Pieces(), Double())) == ["aa", "aa", "bb", "bb"]
    assert [element for element, _ in loader("ab", Pieces(), Draw())] == ["a", "a", "b", "b"]


@pytest.mark.parametrize("operations", [(), (Draw(),)])
def test_more_shards_than_records_leave_some_without_any(operations):
    for shuffle in (False, True):
        sampler = IndexSampler(2, ShardOptions(2, 3), shuffle=shuffle, num_epochs=3, seed=1)
        made = loader("ab", *operations, sampler=sampler)
        assert len(made) == 0
        assert list(made) == []


# --- samplers of a user --------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [OwnSampler, LongSampler])
@pytest.mark.parametrize("operation", [Double(), lambda records: records])
def test_a_sampler_needs_nothing_but_indexing(kind, operation):
    made = loader("abcd", operation, sampler=kind(), shard_options=NoSharding())
    elements = list(made)
    assert elements == [x * 2 if isinstance(operation, Double) else x for x in "abcd"]
    iterator = iter(made)
    next(iterator)
    fresh = iter(made)
    fresh.set_state(iterator.get_state())
    assert list(fresh) == elements[1:] == list(iterator)


def test_a_sampler_without_a_length_ends_with_an_index_error_and_the_loader_has_none():
    made = loader("abcd", Batch(3, batch_fn=list), sampler=OwnSampler(), shard_options=NoSharding())
    assert list(made) == [["a", "b", "c"], ["d"]]
    with pytest.raises(TypeError, match=r"its sampler OwnSampler has none"):
        len(made)


@pytest.mark.parametrize("shard", [0, 1])
def test_shards_of_a_users_sampler_take_turns(shard):
    made = loader("abcd", sampler=LongSampler(), shard_options=ShardOptions(shard, 2))
    assert "".join(made) == ["ac", "bd"][shard]


def test_a_sampler_may_use_any_key_its_source_understands():
    source = {"a": 1, "b": 2}
    sampler = LongSampler("ab".__getitem__, length=2)
    assert list(loader(source, sampler=sampler, shard_options=NoSharding())) == [1, 2]


def test_a_key_that_its_source_does_not_know_fails_at_that_record():
    source = {"a": 1, "b": 2}
    sampler = LongSampler("abc".__getitem__, length=3)
    iterator = iter(loader(source, sampler=sampler, shard_options=NoSharding()))
    assert [next(iterator), next(iterator)] == [1, 2]
    with pytest.raises(KeyError, match="c") as caught:
        next(iterator)
    assert "SourceMapDataset(source=dict)" in caught.value.__notes__[0]


class FailingSampler(LongSampler):
    def __init__(self, error: type[Exception]):
        super().__init__(length=8)
        self.error = error

    def __getitem__(self, index: int) -> Any:
        if index == 5:
            raise self.error("five")
        return super().__getitem__(index)


@pytest.mark.parametrize(
    ("error", "expected"), [(LookupError, LookupError), (StopIteration, RuntimeError)]
)
@pytest.mark.parametrize("operations", [(), (lambda records: records,)])
def test_an_error_in_a_sampler_comes_after_the_records_before_it(error, expected, operations):
    made = loader(
        "abcdefgh", *operations, sampler=FailingSampler(error), shard_options=NoSharding()
    )
    iterator = iter(made)
    assert [next(iterator) for _ in range(5)] == list("abcde")
    with pytest.raises(expected):
        next(iterator)


class NoMetadataSampler(LongSampler):
    def __getitem__(self, index: int) -> Any:
        return index if index == 3 else super().__getitem__(index)


def test_what_is_no_metadata_is_an_error_at_that_record():
    iterator = iter(loader("abcd", sampler=NoMetadataSampler(), shard_options=NoSharding()))
    assert [next(iterator) for _ in range(3)] == list("abc")
    with pytest.raises(AttributeError, match="record_key") as caught:
        next(iterator)
    assert "NoMetadataSampler at index 3" in caught.value.__notes__[0]


# --- shards --------------------------------------------------------------------------------------


@given(
    count=st.integers(1, 30),
    shards=st.integers(1, 5),
    shuffle=st.booleans(),
    drop_remainder=st.booleans(),
)
@settings(deadline=None, max_examples=30)
@pytest.mark.filterwarnings("ignore:Dropping")
def test_shards_are_equally_long_and_share_no_record(count, shards, shuffle, drop_remainder):
    parts = []
    for shard in range(shards):
        sampler = IndexSampler(
            count,
            ShardOptions(shard, shards, drop_remainder),
            shuffle=shuffle,
            num_epochs=1,
            seed=3,
        )
        parts.append(list(loader(range(count), sampler=sampler)))
    assert {len(part) for part in parts} == {count // shards}
    together = [record for part in parts for record in part]
    assert len(set(together)) == len(together)


# --- functions over records ----------------------------------------------------------------------


def every_second(records: Iterator[grain.Record]) -> Iterator[grain.Record]:
    for number, record in enumerate(records):
        if number % 2:
            yield record


def test_a_function_from_records_to_records_is_an_operation():
    assert list(loader("abcdef", Double(), every_second, Batch(2, batch_fn=list))) == [
        ["bb", "dd"],
        ["ff"],
    ]


def test_a_function_must_give_records():
    with pytest.raises(TypeError, match=r"must yield grain\.Record objects, got 'x' of type str"):
        list(loader("ab", lambda records: iter("x")))


def test_a_result_that_is_no_iterator_is_refused():
    with pytest.raises(TypeError):
        list(loader("ab", lambda records: 3))


# --- load ----------------------------------------------------------------------------------------


def test_load_makes_a_loader_of_a_source():
    made = grain.load(
        list(range(10)),
        num_epochs=2,
        shuffle=True,
        seed=4,
        shard_options=ShardOptions(1, 2),
        transformations=[Double()],
        batch_size=3,
        drop_remainder=True,
        read_options=INLINE,
    )
    expected = grain.DataLoader(
        data_source=list(range(10)),
        sampler=IndexSampler(10, ShardOptions(1, 2), shuffle=True, num_epochs=2, seed=4),
        operations=[Double(), Batch(3, drop_remainder=True)],
        read_options=INLINE,
    )
    assert isinstance(made, grain.DataLoader)
    assert [batch.tolist() for batch in made] == [batch.tolist() for batch in expected]
    assert made.read_options == INLINE


def test_load_repeats_without_end_by_default():
    iterator = iter(grain.load("ab"))
    assert [next(iterator) for _ in range(5)] == list("ababa")


def test_load_refuses_what_the_sampler_refuses():
    with pytest.raises(ValueError, match="Shuffling requires specifying a seed"):
        grain.load("ab", shuffle=True)
    with pytest.raises(ValueError, match="number of records must be greater than 0"):
        grain.load([])


@pytest.mark.parametrize("workers", [0, 1])
def test_workers_may_have_no_buffer(workers):
    sampler = grain.samplers.SequentialSampler(3, NoSharding())
    loader = grain.DataLoader(
        data_source="abc", sampler=sampler, worker_count=workers, worker_buffer_size=0
    )
    assert list(loader) == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("size", "error", "text"),
    [
        (-1, ValueError, "Worker buffer size must be greater than or equal zero"),
        (None, TypeError, "worker_buffer_size must be an integer, got None"),
        (1.5, TypeError, r"worker_buffer_size must be an integer, got 1\.5"),
    ],
)
def test_a_wrong_buffer_size_is_refused_by_its_name(size, error, text):
    sampler = grain.samplers.SequentialSampler(3, NoSharding())
    with pytest.raises(error, match=text):
        grain.DataLoader(data_source="abc", sampler=sampler, worker_buffer_size=size)
