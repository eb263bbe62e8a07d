"""A batch on the device keeps its values, however it was made and whatever happens to the iterator.

Where JAX can use memory in place, nothing is copied.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import grain
from grain.experimental import device_put

from .rows import BATCHES, ROW, SIZE, assert_is_batch, batches

jax = pytest.importorskip("jax")


def address_of(array: Any) -> int:
    address: int = array.addressable_shards[0].data.unsafe_buffer_pointer()
    return address


each_way = pytest.mark.parametrize("workers", [0, 2], ids=["here", "in workers"])


@each_way
def test_batches_keep_their_values_while_the_iterator_goes_on_and_after_it_is_closed(
    workers: int,
) -> None:
    with iter(device_put(batches(workers), jax.devices()[0])) as iterator:
        kept = []
        for element in iterator:
            kept.append(element)
            for number, earlier in enumerate(kept[-4:], start=max(0, len(kept) - 4)):
                assert_is_batch(earlier, number)
    del iterator, element
    assert len(kept) == BATCHES
    for number, earlier in enumerate(kept):
        assert_is_batch(earlier, number)


@each_way
def test_batches_that_are_still_being_computed_with_keep_their_values(workers: int) -> None:
    def product(x: Any) -> Any:
        # Whole numbers: how floats add up depends on the processor.
        whole = x.astype("int32")
        return (whole @ whole.T).sum(axis=1)

    total = jax.jit(product)
    with iter(device_put(batches(workers, epochs=3), jax.devices()[0])) as iterator:
        # The batch is dropped at once; only the computation still needs it.
        results = [total(element["x"]) for element in iterator]
    for number, result in enumerate(results):
        rows = np.arange(SIZE) + number % BATCHES * SIZE
        np.testing.assert_array_equal(result, rows * rows.sum() * ROW)


@each_way
def test_a_batch_that_a_computation_may_overwrite_is_not_written_where_others_read(
    workers: int,
) -> None:
    data = np.arange(BATCHES * SIZE * ROW, dtype=np.float32).reshape(BATCHES, SIZE, ROW)
    before = data.copy()
    ds = grain.MapDataset.source(data).to_iter_dataset()
    options = grain.MultiprocessingOptions(num_workers=workers)
    double = jax.jit(lambda x: x * 2, donate_argnums=0)
    with iter(device_put(ds.mp_prefetch(options), jax.devices()[0])) as iterator:
        for number, element in enumerate(iterator):
            assert (np.asarray(double(element)) == before[number] * 2).all()
    assert (data == before).all()


@each_way
def test_a_large_batch_is_taken_as_it_lies(workers: int) -> None:
    with iter(batches(workers)) as iterator:
        for number, element in enumerate(iterator):
            placed = jax.device_put(element["x"], jax.devices()[0])
            assert address_of(placed) == element["x"].ctypes.data
            assert_is_batch({"x": placed, "small": element["small"]}, number)


def test_memory_of_worker_processes_comes_back_when_the_device_lets_go() -> None:
    with iter(device_put(batches(2, epochs=8), jax.devices()[0])) as iterator:
        addresses = [address_of(element["x"]) for element in iterator]
    # Memory that never came back would never be met again.
    assert len(set(addresses)) < len(addresses) == 8 * BATCHES
