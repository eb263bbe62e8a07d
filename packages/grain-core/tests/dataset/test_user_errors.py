"""Errors in users' functions: where they happen, the elements before them, and how the stream resumes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import grain
from grain.dataset.chunk import PartialRead

from ..helpers.pipelines import INLINE

Map = grain.MapDataset
THREADS = grain.ReadOptions(num_threads=4, prefetch_buffer_size=16)
BAD = 9


def fail(x: Any) -> Any:
    if x == BAD:
        raise LookupError("nine is not welcome")
    return x


def fail_with_rng(x: Any, rng: np.random.Generator) -> Any:
    return fail(x)


def fail_in_batch(elements: list[Any]) -> list[Any]:
    return [fail(element) for element in elements]


def is_welcome(x: Any) -> bool:
    return fail(x) >= 0


class FailingFlatMap(grain.experimental.FlatMapTransform):
    max_fan_out = 2

    def flat_map(self, element: Any) -> list[Any]:
        return [fail(element)]


class FailingSource:
    """Fails one by one; the next ones have other ways to be read, which fail too."""

    def __len__(self) -> int:
        return 20

    def __getitem__(self, index: int) -> int:
        return fail(index)


class FailingManyReads(FailingSource):
    def __getitems__(self, indices: Any) -> list[int]:
        return [fail(index) for index in indices]


class FailingColumns(FailingManyReads):
    def __getcolumns__(self, indices: Any) -> np.ndarray:
        return np.array([fail(index) for index in indices])


class FailingDataset(grain.MapDataset):
    def __len__(self) -> int:
        return 20

    def __getitem__(self, index: Any) -> Any:
        return self.slice(index) if isinstance(index, slice) else fail(index)


class FailingManyReadsDataset(FailingDataset):
    def __getitems__(self, indices: Any) -> list[Any]:
        return [fail(index) for index in indices]


class FailingSelection(grain.transforms.DatasetSelectionMap):
    def __len__(self) -> int:
        return 20

    def __getitem__(self, index: int) -> tuple[int, int]:
        return 0, fail(index)


class ChoosingTooMuch(FailingSelection):
    def __getitem__(self, index: int) -> tuple[int, int]:
        return (7 if index == BAD else 0), index


class ChoosingNonsense(FailingSelection):
    def __getitem__(self, index: int) -> Any:
        return "nonsense" if index == BAD else (0, index)


def numbers(options: grain.ReadOptions = INLINE) -> grain.IterDataset:
    return Map.range(20).to_iter_dataset(options)


def singles(batches: Any) -> Any:
    """The elements of batches of one, where an operation makes batches."""
    return batches.map(lambda batch: batch[0])


OVER_RANGE = "over RangeMapDataset(start=0, stop=20, step=1)"
MAP_LEVEL: dict[str, tuple[Callable[[], grain.MapDataset], str, str]] = {
    "map": (lambda: Map.range(20).map(fail), "MapMapDataset(transform=fail @", OVER_RANGE),
    "filter": (lambda: Map.range(20).filter(is_welcome), "FilterMapDataset(", OVER_RANGE),
    "map_with_index": (
        lambda: Map.range(20).map_with_index(lambda i, x: fail(x)),
        "MapWithIndexMapDataset(",
        OVER_RANGE,
    ),
    "random_map": (
        lambda: Map.range(20).random_map(fail_with_rng, seed=1),
        "RandomMapMapDataset(",
        OVER_RANGE,
    ),
    "batch_fn": (
        lambda: singles(Map.range(20).batch(1, batch_fn=fail_in_batch)),
        "BatchMapDataset(batch_size=1",
        OVER_RANGE,
    ),
    "selection": (
        lambda: Map.select_from_datasets([Map.range(20)], FailingSelection()),
        "MixedMapDataset[1 parents]",
        OVER_RANGE,
    ),
    "source": (
        lambda: Map.source(FailingSource()),
        "SourceMapDataset(source=FailingSource)",
        "at index 9.",
    ),
    "source read many at a time": (
        lambda: Map.source(FailingManyReads()),
        "SourceMapDataset(source=FailingManyReads)",
        "at index 9.",
    ),
    "source read by columns": (
        lambda: singles(Map.source(FailingColumns()).batch(1)),
        "SourceMapDataset(source=FailingColumns)",
        "at index 9.",
    ),
    "user's dataset": (lambda: FailingDataset().seed(1), "FailingDataset", "over FailingDataset"),
    "user's dataset read many at a time": (
        lambda: FailingManyReadsDataset().seed(1),
        "FailingManyReadsDataset",
        "over FailingManyReadsDataset",
    ),
    "deep down": (
        lambda: Map.mix([Map.range(20).map(fail)]).seed(1).map(abs)[:20].map(abs).repeat(1),
        "MapMapDataset(transform=fail @",
        OVER_RANGE,
    ),
}

ITER_LEVEL: dict[str, tuple[Callable[..., grain.IterDataset], str]] = {
    "map": (lambda o: numbers(o).map(fail), "MapIterDataset(transform=fail @"),
    "filter": (lambda o: numbers(o).filter(is_welcome), "FilterIterDataset("),
    "map_with_index": (
        lambda o: numbers(o).map_with_index(lambda i, x: fail(x)),
        "MapWithIndexIterDataset(",
    ),
    "random_map": (
        lambda o: numbers(o).random_map(fail_with_rng, seed=1),
        "RandomMapIterDataset(",
    ),
    "batch_fn": (
        lambda o: numbers(o).batch(1, batch_fn=fail_in_batch).map(lambda batch: batch[0]),
        "BatchIterDataset(batch_size=1",
    ),
    "flat map": (lambda o: numbers(o).apply(FailingFlatMap()), "FlatMapIterDataset("),
}

each_map_level = pytest.mark.parametrize("name", MAP_LEVEL)
each_iter_level = pytest.mark.parametrize("name", ITER_LEVEL)
each_way_to_read = pytest.mark.parametrize("options", [INLINE, THREADS], ids=["inline", "threads"])


def outcomes(iterator: Any, count: int) -> list[Any]:
    """Elements, and in their place the type of an exception or "the end"."""
    seen: list[Any] = []
    for _ in range(count):
        try:
            seen.append(next(iterator))
        except StopIteration:
            seen.append("the end")
        except Exception as error:
            seen.append(type(error))
    return seen


def the_note(error: BaseException) -> str:
    [note] = [note for note in error.__notes__ if note.startswith("grain: raised")]
    return note


# --- on map datasets -----------------------------------------------------------------------------


@each_map_level
def test_a_read_that_fails_says_which_operation_index_and_source(name):
    make, operation, source = MAP_LEVEL[name]
    with pytest.raises(LookupError, match="nine is not welcome") as caught:
        make()[BAD]
    assert operation in the_note(caught.value)
    assert source in the_note(caught.value)
    assert "at index 9" in the_note(caught.value)


@each_map_level
def test_many_reads_fail_like_the_one_that_does(name):
    make, operation, _ = MAP_LEVEL[name]
    with pytest.raises(LookupError, match="nine is not welcome") as caught:
        make().__getitems__([3, 5, BAD, 7])
    assert operation in the_note(caught.value)
    assert "at index 9" in the_note(caught.value)
    assert make().__getitems__([3, 5, 7]) == [3, 5, 7]


@each_map_level
@each_way_to_read
def test_elements_before_the_failing_one_come_first_and_it_fails_again_at_its_index(name, options):
    make, operation, _ = MAP_LEVEL[name]
    iterator = iter(make().to_iter_dataset(options))
    assert outcomes(iterator, BAD) == list(range(BAD))
    for _ in range(3):
        with pytest.raises(LookupError, match="nine is not welcome") as caught:
            next(iterator)
        assert operation in the_note(caught.value)
        assert iterator.get_state() == {"next_index": BAD}
    iterator.set_state({"next_index": BAD + 1})
    assert list(iterator) == list(range(BAD + 1, 20))
    iterator.close()


@each_map_level
def test_elements_before_the_failing_one_fill_their_batches_first(name):
    make, _, _ = MAP_LEVEL[name]
    iterator = iter(make().to_iter_dataset(INLINE).map(abs).batch(4, batch_fn=list))
    assert outcomes(iterator, 3) == [[0, 1, 2, 3], [4, 5, 6, 7], LookupError]


@pytest.mark.parametrize(
    ("selection", "error", "message"),
    [
        (ChoosingTooMuch(), IndexError, r"ChoosingTooMuch\[9\] chose dataset 7, outside of 0\.\.0"),
        (
            ChoosingNonsense(),
            TypeError,
            r"ChoosingNonsense\[9\] must be the integers \(dataset, element.*got 'nonsense'",
        ),
    ],
)
def test_a_selection_map_that_chooses_what_is_not_there_fails_at_that_element(
    selection, error, message
):
    ds = Map.select_from_datasets([Map.range(20)], selection)
    assert outcomes(iter(ds), BAD + 1) == [*range(BAD), error]
    with pytest.raises(error, match=message):
        ds[BAD]
    assert ds[BAD + 1] == BAD + 1


def test_a_flat_map_fails_at_the_place_of_its_element():
    ds = Map.range(20).apply(FailingFlatMap())
    assert outcomes(iter(ds), BAD + 1) == [*range(BAD), LookupError]
    with pytest.raises(LookupError, match="nine") as caught:
        ds[2 * BAD]
    assert "at index 18" in the_note(caught.value)


def test_too_many_pieces_are_an_error_that_says_how_many():
    class TooMany(grain.experimental.FlatMapTransform):
        max_fan_out = 2

        def flat_map(self, element: Any) -> list[Any]:
            return [element] * element

    ds = Map.range(4).apply(TooMany())
    assert outcomes(iter(ds), 4) == [1, 2, 2, ValueError]
    with pytest.raises(ValueError, match="3 pieces, max_fan_out=2"):
        ds[6]


def test_a_filter_that_gives_no_truth_value_fails_at_that_element():
    def ambiguous(x: int) -> Any:
        return np.array([True, False]) if x == 3 else True

    assert outcomes(iter(Map.range(5).filter(ambiguous)), 4) == [0, 1, 2, ValueError]
    iterator = iter(numbers().filter(ambiguous))
    assert outcomes(iterator, 6) == [0, 1, 2, ValueError, 4, 5]
    with pytest.raises(ValueError, match="ambiguous") as caught:
        Map.range(5).filter(ambiguous)[3]
    assert "FilterMapDataset" in the_note(caught.value)


# --- on iter datasets ----------------------------------------------------------------------------


@each_iter_level
@each_way_to_read
def test_the_stream_resumes_after_an_element_that_failed(name, options):
    make, operation = ITER_LEVEL[name]
    iterator = iter(make(options))
    assert outcomes(iterator, BAD) == list(range(BAD))
    with pytest.raises(LookupError, match="nine is not welcome") as caught:
        next(iterator)
    assert operation in the_note(caught.value)
    assert OVER_RANGE in the_note(caught.value)
    assert outcomes(iterator, 12) == [*range(BAD + 1, 20), "the end", "the end"]
    iterator.close()


@each_iter_level
def test_a_state_behind_a_failed_element_does_not_fail_again(name):
    make, _ = ITER_LEVEL[name]
    iterator = iter(make(INLINE))
    outcomes(iterator, BAD + 1)
    fresh = iter(make(INLINE))
    fresh.set_state(iterator.get_state())
    assert list(fresh) == list(range(BAD + 1, 20)) == list(iterator)


@each_iter_level
def test_a_state_before_a_failed_element_leads_to_the_same_failure(name):
    make, _ = ITER_LEVEL[name]
    iterator = iter(make(INLINE))
    outcomes(iterator, BAD)
    fresh = iter(make(INLINE))
    fresh.set_state(iterator.get_state())
    assert outcomes(fresh, 2) == [LookupError, BAD + 1]


@each_iter_level
def test_operations_above_resume_too(name):
    make, _ = ITER_LEVEL[name]
    pairs = iter(make(INLINE).map(abs).batch(2, batch_fn=list))
    # The element that waited for the failed one is lost with it.
    assert outcomes(pairs, 7) == [[0, 1], [2, 3], [4, 5], [6, 7], LookupError, [10, 11], [12, 13]]
    mixed = iter(grain.IterDataset.mix([make(INLINE), numbers().map(lambda x: -x)]))
    expected = [number for x in range(20) for number in (x, -x)]
    expected[2 * BAD] = LookupError
    assert outcomes(mixed, 40) == expected


def test_each_failure_is_raised_once():
    iterator = iter(numbers().map(lambda x: 1 // (x % 2)))
    assert outcomes(iterator, 6) == [ZeroDivisionError, 1] * 3


# --- exceptions with a meaning of their own ------------------------------------------------------


def stop(x: Any) -> Any:
    return next(iter(())) if x == BAD else x


class StoppingFlatMap(FailingFlatMap):
    def flat_map(self, element: Any) -> list[Any]:
        return [stop(element)]


class StoppingSource(FailingSource):
    def __getitem__(self, index: int) -> int:
        return stop(index)


class StoppingDataset(FailingDataset):
    def __getitem__(self, index: Any) -> Any:
        return stop(index)


class StoppingSelection(FailingSelection):
    def __getitem__(self, index: int) -> tuple[int, int]:
        return 0, stop(index)


STOPPING: dict[str, Callable[[], Any]] = {
    "map": lambda: Map.range(20).map(stop),
    "filter": lambda: Map.range(20).filter(lambda x: stop(x) >= 0),
    "map_with_index": lambda: Map.range(20).map_with_index(lambda i, x: stop(x)),
    "random_map": lambda: Map.range(20).random_map(lambda x, rng: stop(x), seed=1),
    "batch_fn": lambda: singles(
        Map.range(20).batch(1, batch_fn=lambda batch: [stop(x) for x in batch])
    ),
    "batch_fn that stops": lambda: singles(
        Map.range(20).batch(1, batch_fn=lambda batch: stop(batch[0]) is None or batch)
    ),
    "flat map": lambda: Map.range(20).apply(StoppingFlatMap()),
    "source": lambda: Map.source(StoppingSource()),
    "user's dataset": lambda: StoppingDataset().seed(1),
    "selection": lambda: Map.select_from_datasets([Map.range(20)], StoppingSelection()),
    "iter map": lambda: numbers().map(stop),
    "iter filter": lambda: numbers().filter(lambda x: stop(x) >= 0),
    "iter map_with_index": lambda: numbers().map_with_index(lambda i, x: stop(x)),
    "iter random_map": lambda: numbers().random_map(lambda x, rng: stop(x), seed=1),
    "iter batch_fn": lambda: (
        numbers()
        .batch(1, batch_fn=lambda batch: stop(batch[0]) is None or batch)
        .map(lambda batch: batch[0])
    ),
    "iter flat map": lambda: numbers().apply(StoppingFlatMap()),
}


@pytest.mark.parametrize("name", STOPPING)
@pytest.mark.parametrize("options", [None, THREADS], ids=["as it is", "threads"])
def test_stop_iteration_in_a_users_function_does_not_end_the_stream(name, options):
    ds = STOPPING[name]()
    if options is not None and isinstance(ds, grain.MapDataset):
        ds = ds.to_iter_dataset(options)
    iterator = iter(ds)
    assert outcomes(iterator, BAD + 1) == [*range(BAD), RuntimeError]
    iterator.close()


@pytest.mark.parametrize("name", [name for name in STOPPING if not name.startswith("iter ")])
@pytest.mark.parametrize("first", [0, BAD - 1, BAD])
def test_no_chunk_ends_at_a_function_that_stops(name, first):
    ds = STOPPING[name]()
    read = ds.read_many(np.arange(first, len(ds)))
    assert isinstance(read, PartialRead)
    assert len(read) < len(ds) - first
    assert isinstance(read.error, RuntimeError)


@pytest.mark.parametrize("name", [name for name in STOPPING if not name.startswith("iter ")])
def test_a_read_where_a_function_stops_says_so(name):
    ds = STOPPING[name]()
    with pytest.raises(RuntimeError, match="StopIteration") as caught:
        ds[2 * BAD if name == "flat map" else BAD]
    assert "raised in" in the_note(caught.value)


class Interrupt:
    """Raises KeyboardInterrupt at one element, the first time."""

    def __init__(self, kind: type[BaseException] = KeyboardInterrupt):
        self.kind = kind
        self.interrupted = False

    def __call__(self, x: Any, *_: Any) -> Any:
        if x == BAD and not self.interrupted:
            self.interrupted = True
            raise self.kind
        return x


INTERRUPTED: dict[str, Callable[[Interrupt], Any]] = {
    "map": lambda f: Map.range(20).map(f).to_iter_dataset(INLINE),
    "filter": lambda f: Map.range(20).filter(lambda x: f(x) >= 0).to_iter_dataset(INLINE),
    "random_map": lambda f: Map.range(20).random_map(f, seed=1).to_iter_dataset(INLINE),
    "batch_fn": lambda f: (
        Map.range(20).batch(1, batch_fn=lambda batch: f(batch[0])).to_iter_dataset(INLINE)
    ),
}


@pytest.mark.parametrize("name", INTERRUPTED)
@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit])
def test_an_interrupt_passes_through_and_the_iterator_resumes_where_it_was(name, kind):
    iterator = iter(INTERRUPTED[name](Interrupt(kind)))
    taken: list[Any] = []
    with pytest.raises(kind) as caught:
        taken.extend(iterator)
    assert not hasattr(caught.value, "__notes__")
    assert taken == list(range(len(taken)))
    assert iterator.get_state() == {"next_index": len(taken)}
    assert taken + list(iterator) == list(range(20))


INTERRUPTED_ABOVE: dict[str, Callable[[Interrupt], Any]] = {
    "map": lambda f: numbers().map(f),
    "filter": lambda f: numbers().filter(lambda x: f(x) >= 0),
    "random_map": lambda f: numbers().random_map(f, seed=1),
    "batch_fn": lambda f: numbers().batch(1, batch_fn=lambda batch: f(batch[0])),
    "mix": lambda f: grain.IterDataset.mix([numbers().map(f)]),
}


@pytest.mark.parametrize("name", INTERRUPTED_ABOVE)
def test_an_interrupt_passes_through_operations_on_iterators(name):
    with pytest.raises(KeyboardInterrupt):
        list(INTERRUPTED_ABOVE[name](Interrupt()))


def test_notes_are_made_once_by_the_innermost_operation():
    inner = Map.range(20).map(fail)
    with pytest.raises(LookupError, match="nine") as caught:
        list(inner.map(abs).batch(2).map(abs).to_iter_dataset(INLINE).map(abs))
    assert "transform=fail @" in the_note(caught.value)
    assert "tests/dataset/test_user_errors.py:" in the_note(caught.value)


def test_an_error_of_a_user_keeps_its_own_notes_and_cause():
    def noted(x: int) -> int:
        error = ValueError("custom")
        error.add_note("a note of mine")
        raise error from KeyError("the cause")

    with pytest.raises(ValueError, match="custom") as caught:
        Map.range(3).map(noted)[0]
    assert caught.value.__notes__[0] == "a note of mine"
    assert "MapMapDataset" in caught.value.__notes__[1]
    assert isinstance(caught.value.__cause__, KeyError)
