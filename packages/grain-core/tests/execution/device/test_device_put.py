"""Elements on one device: values, states while elements are in flight, depth, ends and errors."""

from __future__ import annotations

import gc
import pickle
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import grain
from grain.experimental import device_put, get_element_spec

from ...helpers.threads import new_threads, wait_for_end
from .rows import short_row

jax = pytest.importorskip("jax")


def records(count: int = 10) -> grain.IterDataset[Any]:
    ds = grain.MapDataset.range(count).seed(3).shuffle()
    return ds.map(short_row).to_iter_dataset()


def device() -> Any:
    return jax.devices()[0]


def values(elements: Any) -> list[int]:
    return [int(element["x"][0]) for element in elements]


@pytest.mark.parametrize("cpu_buffer_size", [0, 1, 4])
@pytest.mark.parametrize("device_buffer_size", [0, 1, 2, 100])
def test_elements_are_those_of_the_dataset_on_the_device(
    cpu_buffer_size: int, device_buffer_size: int
) -> None:
    ds = device_put(
        records(),
        device(),
        cpu_buffer_size=cpu_buffer_size,
        device_buffer_size=device_buffer_size,
    )
    placed = list(ds)
    assert values(placed) == values(records())
    assert all(element["none"] is None for element in placed)
    assert all(element["x"].devices() == {device()} for element in placed)
    assert len(ds) == 10


def test_a_second_epoch_is_the_first_again() -> None:
    ds = device_put(records(), device())
    assert values(ds) == values(ds) == values(records())


@pytest.mark.parametrize("count", [0, 1])
def test_a_dataset_of_few_elements_ends_after_them(count: int) -> None:
    iterator = iter(device_put(records(count), device()))
    assert len(list(iterator)) == count
    assert next(iterator, "end") == "end"


@pytest.mark.parametrize("buffer_size", [0, 1, 2, 5])
def test_the_state_counts_what_the_consumer_took_and_resumes_at_every_step(
    buffer_size: int,
) -> None:
    plain = iter(records())
    ds = device_put(records(), device(), device_buffer_size=buffer_size)
    iterator = iter(ds)
    states = [iterator.get_state()]
    expected = [plain.get_state()]
    for _ in range(10):
        next(iterator)
        next(plain)
        states.append(iterator.get_state())
        expected.append(plain.get_state())
    assert states == expected
    everything = values(records())
    for taken, state in enumerate(states):
        fresh = iter(ds)
        fresh.set_state(state)
        assert values(fresh) == everything[taken:]
        iterator.set_state(state)
        assert values(iterator) == everything[taken:]


def test_the_state_of_a_packed_stream_is_right_while_elements_are_in_flight() -> None:
    rows = grain.MapDataset.range(1, 30).map(lambda i: {"t": np.full(i % 7 + 1, i, np.int32)})
    packed = grain.experimental.FirstFitPackIterDataset(
        rows.to_iter_dataset(), length_struct={"t": 12}, num_packing_bins=3
    )
    ds = device_put(packed, device())
    everything = [np.asarray(row["t"]).tolist() for row in ds]
    assert everything == [row["t"].tolist() for row in packed]
    iterator = iter(ds)
    for taken in range(1, len(everything)):
        next(iterator)
        fresh = iter(packed)
        fresh.set_state(iterator.get_state())
        assert [row["t"].tolist() for row in fresh] == everything[taken:]


class OwnStream(grain.IterDataset[Any]):
    """A dataset as users write them: its states can be asked only of the iterator itself."""

    def __iter__(self) -> grain.DatasetIterator[Any]:
        return OwnIterator()


class OwnIterator(grain.DatasetIterator[Any]):
    def __init__(self) -> None:
        super().__init__()
        self._next = 0

    def __next__(self) -> Any:
        if self._next == 6:
            raise StopIteration
        self._next += 1
        return {"x": np.full(4, self._next - 1)}

    def get_state(self) -> Any:
        return {"own": self._next}

    def set_state(self, state: Any) -> None:
        self._next = state["own"]


def test_a_users_own_stream_has_the_state_of_what_was_taken() -> None:
    iterator = iter(device_put(OwnStream(), device()))
    for taken in range(1, 7):
        assert values([next(iterator)]) == [taken - 1]
        assert iterator.get_state() == {"own": taken}
    iterator.set_state({"own": 4})
    assert values(iterator) == [4, 5]


class Counter:
    """Counts calls of `jax.device_put`, and lets others wait for them."""

    def __init__(self, real: Any) -> None:
        self._real = real
        self._changed = threading.Condition()
        self.placed = 0
        self.taken = 0
        self.most_ahead = 0

    def __call__(self, *args: Any) -> Any:
        with self._changed:
            self.placed += 1
            self.most_ahead = max(self.most_ahead, self.placed - self.taken)
            self._changed.notify_all()
        return self._real(*args)

    def wait_for(self, placed: int) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: self.placed >= placed, timeout=60)


@pytest.mark.parametrize("size", [1, 2, 3])
def test_as_many_elements_as_asked_for_are_on_the_device_ahead_of_the_consumer(
    size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    counter = Counter(jax.device_put)
    monkeypatch.setattr(jax, "device_put", counter)
    iterator = iter(device_put(records(60), device(), cpu_buffer_size=20, device_buffer_size=size))
    for taken in range(1, 61):
        next(iterator)
        counter.wait_for(min(60, taken + size))
        counter.taken = taken
    # One more: what `next` has just given is not counted as taken yet.
    assert counter.most_ahead <= size + 1


@pytest.mark.parametrize("taken", [0, 1, 5, 60])
@pytest.mark.parametrize("end", ["close", "with", "del", "error"])
def test_an_iterator_that_ends_leaves_no_thread(end: str, taken: int) -> None:
    before = set(threading.enumerate())
    iterator: Any = iter(device_put(records(60), device()))
    iterator.start_prefetch()
    assert new_threads(before, "grain")
    for _ in range(taken):
        next(iterator)
    match end:
        case "close":
            iterator.close()
            assert not new_threads(before, "grain")
        case "with":
            with iterator:
                pass
            assert not new_threads(before, "grain")
        case "del":
            del iterator
        case "error":
            with pytest.raises(KeyError, match="user"), iterator:
                raise KeyError("user")
    gc.collect()
    wait_for_end(lambda: new_threads(before, "grain"))


def test_a_closed_iterator_cannot_be_advanced_and_keeps_its_state() -> None:
    iterator = iter(device_put(records(), device()))
    next(iterator)
    iterator.close()
    with pytest.raises(ValueError, match="closed"):
        next(iterator)
    assert iterator.get_state() == {"next_index": 1}


def test_an_error_of_the_pipeline_comes_after_the_elements_before_it() -> None:
    def fail_at_4(i: int) -> Any:
        if i == 4:
            raise RuntimeError("no four")
        return np.full(2, i)

    ds = grain.MapDataset.range(8).to_iter_dataset().map(fail_at_4)
    iterator = iter(device_put(ds, device()))
    assert [int(next(iterator)[0]) for _ in range(4)] == [0, 1, 2, 3]
    with pytest.raises(RuntimeError, match="no four"):
        next(iterator)
    assert [int(element[0]) for element in iterator] == [5, 6, 7]


def test_an_element_that_no_device_can_hold_is_an_error_and_the_stream_goes_on_behind_it() -> None:
    ds = grain.MapDataset.source([1, "text", 3]).to_iter_dataset()
    iterator = iter(device_put(ds, device()))
    assert next(iterator) == 1
    with pytest.raises(TypeError, match="str") as caught:
        next(iterator)
    assert "device_put" in str(caught.value.__notes__)
    assert iterator.get_state() == {"next_index": 2}
    assert next(iterator) == 3


def test_none_stays_none() -> None:
    ds = grain.MapDataset.range(4).filter(lambda i: i % 2 == 0)
    sparse = ds.to_iter_dataset(allow_nones=True)
    assert list(device_put(sparse, device())) == [0, None, 2, None]


@pytest.mark.parametrize("name", ["cpu_buffer_size", "device_buffer_size"])
def test_a_buffer_of_less_than_nothing_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="greater than or equal to 0, got -1"):
        device_put(records(), device(), **{name: -1})


@pytest.mark.parametrize("wrong", [[1, 2], None, 7])
def test_what_is_no_dataset_is_refused(wrong: Any) -> None:
    with pytest.raises(TypeError, match=f"got a {type(wrong).__name__}"):
        device_put(wrong, device())


def test_what_is_no_device_is_refused_by_jax() -> None:
    with pytest.raises(ValueError, match="cpu"):
        next(iter(device_put(records(), "cpu")))


def test_the_element_spec_has_the_types_of_the_device() -> None:
    ds = grain.MapDataset.source(np.zeros((6, 3), np.float64)).batch(2, drop_remainder=True)
    placed = device_put(ds.to_iter_dataset(), device())
    spec = get_element_spec(placed)
    first = next(iter(placed))
    assert (spec.shape, spec.dtype) == (first.shape, first.dtype)


def test_what_cannot_go_to_another_process_says_where_worker_processes_belong() -> None:
    with pytest.raises(TypeError, match=r"Call `mp_prefetch` before `device_put`"):
        pickle.dumps(device_put(records(), device()))


@pytest.fixture
def workers() -> grain.MultiprocessingOptions:
    return grain.MultiprocessingOptions(num_workers=2, per_worker_buffer_size=2)


def test_worker_processes_above_never_see_the_device(
    workers: grain.MultiprocessingOptions,
) -> None:
    ds = device_put(records(), device()).mp_prefetch(workers)
    with iter(ds) as iterator:
        assert all(isinstance(element["x"], jax.Array) for element in _checked(iterator))


def _checked(iterator: Any) -> Iterator[Any]:
    for expected, element in zip(values(records()), iterator, strict=True):
        assert values([element]) == [expected]
        yield element
