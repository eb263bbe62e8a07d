"""Deliberate differences from the reference that no single recorded fact can show."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

import grain

from .cases.common import AppendDraw, IsEven, double, make_pieces
from .cases.loader import load


@pytest.mark.parametrize("length", [2**16 + 1, 2**18 + 1])
def test_shuffle_of_one_more_than_a_power_of_two_is_a_permutation(length: int) -> None:
    # The reference returns one index twice and omits another.
    ds = grain.MapDataset.range(length).shuffle(seed=1)
    shuffled = ds.__getitems__(np.arange(length))
    assert sorted(shuffled) == list(range(length))
    assert ds[length // 2] == shuffled[length // 2]


def _batches(workers: int) -> grain.DataLoader:
    operations = [AppendDraw(), IsEven(), grain.transforms.Batch(4)]
    return load(*operations, n=34, epochs=2, worker_count=workers)


@pytest.mark.parametrize("workers", [1, 3])
def test_number_of_workers_changes_no_batch(workers: int) -> None:
    # In the reference every worker batches its own elements, with a remainder per worker.
    expected = [batch.tolist() for batch in _batches(0)]
    assert [batch.tolist() for batch in _batches(workers)] == expected


@pytest.mark.parametrize(("before", "after"), [(0, 2), (2, 0), (2, 3)])
def test_number_of_workers_may_change_at_a_checkpoint(before: int, after: int) -> None:
    # The reference refuses a state that was taken with another number of workers.
    expected = [batch.tolist() for batch in _batches(0)]
    first = iter(_batches(before))
    for _ in range(3):
        next(first)
    state = first.get_state()
    second = iter(_batches(after))
    second.set_state(state)
    assert [batch.tolist() for batch in second] == expected[3:]


def test_every_state_survives_json() -> None:
    # The reference's packing states contain tuples, and do not restore as lists.
    ds = grain.IterDataset.mix(
        {
            "a": grain.MapDataset.range(9).to_iter_dataset().map(double).batch(2),
            "b": grain.MapDataset.range(9).to_iter_dataset().random_map(_draw, seed=1).batch(2),
        }
    )
    iterator = iter(ds)
    expected = [batch.tolist() for batch in ds]
    for taken in range(len(expected) + 1):
        fresh = iter(ds)
        fresh.set_state(json.loads(json.dumps(iterator.get_state())))
        assert [batch.tolist() for batch in fresh] == expected[taken:]
        next(iterator, None)


def _draw(x: int, rng: np.random.Generator) -> int:
    return int(rng.integers(0, 100))


def test_lengths_are_known_where_they_can_be() -> None:
    # The reference has no len() beyond map datasets.
    elements = grain.MapDataset.range(10).to_iter_dataset()
    known: dict[str, tuple[Any, int]] = {
        "elements": (elements, 10),
        "map": (elements.map(double), 10),
        "random_map": (elements.random_map(_draw, seed=1), 10),
        "batch": (elements.batch(3), 4),
        "batch, remainder dropped": (elements.batch(3, drop_remainder=True), 3),
        "loader": (load(n=10, epochs=2), 20),
        "loader, sharded": (load(n=10, shard=(0, 3, False)), 3),
        "loader, batched": (load(grain.transforms.Batch(4), n=10), 3),
    }
    for name, (ds, length) in known.items():
        assert len(ds) == length == len(list(ds)), name
    with pytest.raises(TypeError):
        len(elements.filter(lambda x: x > 3))


@pytest.mark.parametrize("elements", [[None, 1], [1, None]])
def test_none_among_numbers_makes_an_array_of_objects_at_any_position(elements: list) -> None:
    # The reference raises for the first of these.
    batch = grain.MapDataset.source(elements).batch(2)[0]
    assert batch.dtype == object
    assert batch.tolist() == elements


@pytest.mark.parametrize("elements", [[1, {"a": 1}], [{"a": 1}, 1]])
def test_numbers_and_dictionaries_cannot_be_batched(elements: list) -> None:
    # The reference makes an array of objects of the first of these.
    with pytest.raises(ValueError, match="same structure"):
        grain.MapDataset.source(elements).batch(2)[0]


def test_numpy_integers_become_python_integers() -> None:
    # In the reference this is 244: it computes in the type of the index.
    element = grain.MapDataset.range(0, 1000, 100)[np.uint8(5)]
    assert (element, type(element)) == (500, int)
    assert {type(x) for x in grain.MapDataset.range(0, 5, np.int32(2))} == {int}


def test_negative_indices_of_random_operations_work() -> None:
    # The reference raises OverflowError and TypeError.
    mapped = grain.MapDataset.range(5).random_map(_draw, seed=1)
    assert mapped[-1] == mapped[-1]
    shuffled = grain.experimental.WindowShuffleMapDataset(
        grain.MapDataset.range(4), window_size=4, seed=1
    )
    assert sorted(shuffled[i] for i in range(-4, 0)) == [0, 1, 2, 3]


@pytest.mark.parametrize(
    "options", [grain.ReadOptions(num_threads=0, prefetch_buffer_size=0), grain.ReadOptions()]
)
def test_an_element_that_fails_fails_again_however_it_is_read(options: grain.ReadOptions) -> None:
    # With threads the reference skips it, and ends with an IndexError.
    iterator = iter(grain.MapDataset.range(5).map(_fail_at_two).to_iter_dataset(options))
    assert [next(iterator), next(iterator)] == [0, 1]
    for _ in range(2):
        with pytest.raises(ValueError, match="two"):
            next(iterator)
        assert iterator.get_state() == {"next_index": 2}


def _fail_at_two(x: int) -> int:
    if x == 2:
        raise ValueError("two")
    return x


def test_set_state_moves_to_the_state_from_any_position() -> None:
    # The reference's interleave skips elements; its loader with such an operation stays at its end.
    parts = [grain.MapDataset.range(n) for n in (3, 2, 4)]
    for ds in (
        grain.experimental.InterleaveIterDataset(parts, cycle_length=2),
        load(grain.python.MapOperation(double), n=3),
    ):
        iterator = iter(ds)
        start = iterator.get_state()
        expected = list(iterator)
        iterator.set_state(start)
        assert list(iterator) == expected


def test_a_rebatched_dataset_has_no_empty_batch_at_its_end() -> None:
    batches = grain.MapDataset.range(8).batch(4).to_iter_dataset()
    ds = grain.experimental.RebatchIterDataset(batches, batch_size=4)
    iterator = iter(ds)
    next(iterator), next(iterator)
    iterator.set_state(iterator.get_state())
    assert list(iterator) == []


def test_a_strict_zip_raises_at_every_call() -> None:
    parts = [grain.MapDataset.range(n).to_iter_dataset() for n in (2, 4)]
    iterator = iter(grain.experimental.ZipIterDataset(parts))
    assert [next(iterator), next(iterator)] == [(0, 0), (1, 1)]
    for _ in range(4):
        with pytest.raises(ValueError, match="longer than"):
            next(iterator)


def test_a_random_map_after_a_flat_map_has_a_generator() -> None:
    # The reference passes None to the user's function.
    assert len(list(load(make_pieces(), AppendDraw(), n=4))) == 6


@pytest.mark.parametrize(
    "build",
    [
        lambda ds: grain.experimental.WindowShuffleIterDataset(ds, window_size=0, seed=1),
        lambda ds: grain.experimental.InterleaveIterDataset([ds], cycle_length=0),
        lambda ds: ds.random_map(_draw, seed=-1),
        lambda ds: ds.seed(-1),
    ],
    ids=["window_size", "cycle_length", "seed of a random map", "seed"],
)
def test_invalid_arguments_are_errors_where_they_are_passed(build: Any) -> None:
    with pytest.raises(ValueError, match=r"must be (positive|non-negative), got"):
        build(grain.MapDataset.range(3).to_iter_dataset())


def test_window_shuffles_and_random_maps_have_endless_epochs() -> None:
    # The reference raises TypeError and OverflowError at indices beyond 64 bits.
    shuffled = grain.experimental.WindowShuffleMapDataset(
        grain.MapDataset.range(5), window_size=2, seed=1
    )
    for ds in (shuffled, grain.MapDataset.range(5).random_map(_draw, seed=1)):
        assert len(list(ds.repeat()[:7].repeat(4))) == 28


@pytest.mark.parametrize("wrong", [True, 2.0])
def test_integers_are_integers(wrong: Any) -> None:
    # The reference accepts values that behave like integers.
    ds = grain.MapDataset.range(5)
    for call in (ds.repeat, ds.batch, ds.seed, ds.shuffle):
        with pytest.raises(TypeError):
            call(wrong)


def test_the_stream_continues_after_a_threshold_error() -> None:
    # The reference loses the element at which it checks, and raises at each step from then on.
    options = grain.experimental.DatasetOptions(filter_raise_threshold_ratio=0.5)
    ds = grain.MapDataset.range(1500).filter(_is_odd).to_iter_dataset()
    iterator = iter(grain.experimental.WithOptionsIterDataset(ds, options))
    assert [next(iterator) for _ in range(500)] == list(range(1, 1000, 2))
    with pytest.raises(ValueError, match=r"skipped 50\.00 %"):
        next(iterator)
    assert list(iterator) == list(range(1001, 1500, 2))


def _is_odd(x: int) -> bool:
    return x % 2 == 1


def test_every_epoch_of_a_repeated_interleave_is_like_the_first() -> None:
    # In the reference the third epoch lacks a dataset and has another twice.
    parts = [grain.MapDataset.range(first, first + 3) for first in (0, 10, 20)]
    interleaved = grain.experimental.InterleaveIterDataset(parts, cycle_length=1)
    found = list(grain.experimental.RepeatIterDataset(interleaved, 3))
    assert found == [0, 1, 2, 10, 11, 12, 20, 21, 22] * 3


def test_states_of_a_repeated_interleave_restore_in_every_epoch() -> None:
    # In the reference they have the exhausted datasets of the epoch before.
    parts = [grain.MapDataset.range(first, first + size) for first, size in ((0, 2), (10, 5))]
    ds = grain.experimental.RepeatIterDataset(
        grain.experimental.InterleaveIterDataset(parts, cycle_length=2), 2
    )
    expected, iterator = list(ds), iter(ds)
    for taken in range(len(expected) + 1):
        restored = iter(ds)
        restored.set_state(iterator.get_state())
        assert list(restored) == expected[taken:]
        next(iterator, None)


@pytest.mark.parametrize("threads", [1, 3])
def test_the_number_of_prefetching_threads_changes_no_batch(threads: int) -> None:
    # The reference interleaves threads, each of which batches its own elements.
    ds = grain.MapDataset.range(7).to_iter_dataset().batch(2)
    found = grain.experimental.multithread_prefetch(ds, threads, 2)
    assert [batch.tolist() for batch in found] == [[0, 1], [2, 3], [4, 5], [6]]


class _Named(dict[str, Any]):
    pass


class _Row(list[Any]):
    pass


def test_subclasses_of_dictionaries_and_lists_are_batched_like_them() -> None:
    # The reference makes an array of objects if JAX is installed.
    [batch] = grain.MapDataset.range(3).map(lambda i: _Named(a=i)).batch(3)
    assert type(batch) is _Named
    assert batch["a"].tolist() == [0, 1, 2]
    [batch] = grain.MapDataset.range(3).map(lambda i: _Row([i, 1.5])).batch(3)
    assert type(batch) is _Row
    assert [column.tolist() for column in batch] == [[0, 1, 2], [1.5, 1.5, 1.5]]


@pytest.mark.parametrize("epochs", [1, 3, None])
def test_a_shard_without_records_ends_at_once(epochs: int | None) -> None:
    # The reference divides by zero where there are several epochs.
    loader = grain.DataLoader(
        data_source=grain.sources.RangeDataSource(0, 2, 1),
        sampler=grain.samplers.IndexSampler(
            num_records=2,
            shard_options=grain.sharding.ShardOptions(3, 4),
            num_epochs=epochs,
        ),
    )
    assert list(loader) == []


def test_ranges_are_equal_by_value() -> None:
    # In the reference, only to themselves.
    source = grain.sources.RangeDataSource
    assert source(0, 5, 1) == source(0, 5, 1) != source(0, 5, 2)


def test_dictionaries_with_keys_of_different_types_are_batched() -> None:
    # The reference cannot sort them.
    [batch] = grain.MapDataset.source([{1: 1, "a": 2}] * 2).batch(2)
    assert {key: column.tolist() for key, column in batch.items()} == {1: [1, 1], "a": [2, 2]}


def test_specs_have_dtypes() -> None:
    # In the reference, whatever was given.
    spec = grain.experimental.ShapeDtypeStruct(shape=(3,), dtype=np.float32)
    assert isinstance(spec.dtype, np.dtype)


def test_an_elastic_iterator_can_be_checked_like_a_dataset() -> None:
    shard = grain.sharding.ShardOptions(0, 1)
    iterator = grain.experimental.ElasticIterator(grain.MapDataset.range(12), 4, shard)
    grain.experimental.assert_equal_output_after_checkpoint(iterator)


def test_datasets_are_not_cut_in_place() -> None:
    # The reference has `set_slice`.
    assert not hasattr(grain.MapDataset.range(3), "set_slice")


def test_the_number_of_batches_of_an_endless_dataset_is_exact() -> None:
    # In the reference it is 3074457345618258432: it divides as floats.
    assert len(grain.MapDataset.range(5).repeat().batch(3)) == (2**63 - 1) // 3 + 1


def test_more_epochs_than_fit_into_64_bits_can_be_repeated() -> None:
    # The reference raises OverflowError.
    ds = grain.MapDataset.range(3).repeat(2**70)
    assert [ds[i] for i in (0, 4, 5)] == [0, 1, 2]


def test_numpy_integers_are_options_too() -> None:
    # The reference refuses them.
    options = grain.ReadOptions(num_threads=np.int64(1), prefetch_buffer_size=np.int64(2))
    assert list(grain.MapDataset.range(3).to_iter_dataset(options)) == [0, 1, 2]
    sampler = grain.samplers.IndexSampler(
        4, grain.sharding.NoSharding(), shuffle=True, num_epochs=1, seed=np.int64(1)
    )
    assert sorted(sampler[i].record_key for i in range(4)) == [0, 1, 2, 3]


def test_an_array_of_indices_is_shuffled_at_once() -> None:
    # The reference raises TypeError.
    shuffle = grain.experimental.index_shuffle
    found = shuffle(np.arange(6), 5, 1, 4)
    assert found.tolist() == [shuffle(i, 5, 1, 4) for i in range(6)]


def test_elements_without_a_first_dimension_cannot_be_rebatched() -> None:
    # The reference cuts texts into pieces.
    ds = grain.MapDataset.source(["ab", "cd"]).to_iter_dataset()
    with pytest.raises(TypeError, match="needs batches"):
        list(grain.experimental.RebatchIterDataset(ds, batch_size=1))


@pytest.mark.parametrize("bins", [2**40, 2**70])
def test_bins_take_memory_when_they_are_used(bins: int) -> None:
    # The reference allocates all of them at once.
    tokens = grain.MapDataset.range(6).map(lambda i: {"t": np.arange(i + 1)}).to_iter_dataset()
    packed = grain.experimental.FirstFitPackIterDataset(
        tokens, length_struct={"t": 6}, num_packing_bins=bins
    )
    assert sum(int((row["t_segment_ids"] > 0).sum()) for row in packed) == 21
