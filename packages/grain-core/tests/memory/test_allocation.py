import numpy as np
import pytest

from grain.dataset.base import MapDataset
from grain.memory import allocation


def test_plain_memory_is_the_default():
    out = allocation.allocate((2, 3), np.int16)
    assert out.shape == (2, 3)
    assert out.dtype == np.int16
    assert out.flags.owndata


def test_an_installed_allocator_is_used_until_it_is_replaced():
    calls = []

    def remember(shape, dtype):
        calls.append((shape, dtype))
        return np.zeros(shape, dtype)

    previous = allocation.install_allocator(remember)
    try:
        assert allocation.current_allocator() is remember
        assert allocation.allocate(4, "f4").tolist() == [0, 0, 0, 0]
        assert allocation.install_allocator(None) is remember
    finally:
        allocation.install_allocator(previous)
    assert calls == [(4, "f4")]
    assert allocation.current_allocator() is previous


@pytest.mark.parametrize("shape", [(), 0, (0, 5), 7, (2, 3, 4)])
def test_every_shape_is_as_numpy_gives_it(shape):
    assert allocation.allocate(shape, np.float64).shape == np.empty(shape).shape


@pytest.mark.parametrize("dtype", [np.uint8, np.float64, "U7", [("a", "i4"), ("b", "u1")], object])
def test_a_large_array_starts_at_an_aligned_address_and_is_as_numpy_gives_it(dtype):
    for _ in range(5):
        out = allocation.allocate((300, 1001), dtype)
        assert out.dtype == np.dtype(dtype)
        assert out.shape == (300, 1001)
        assert out.flags.c_contiguous
        assert out.flags.writeable
        assert out.dtype.hasobject or out.ctypes.data % allocation.ALIGNMENT == 0


def test_batches_of_large_elements_are_aligned():
    images = [np.full((64, 64, 3), n, np.uint8) for n in range(32)]
    for batch in MapDataset.source(images).batch(8):
        assert batch.ctypes.data % allocation.ALIGNMENT == 0
        assert batch[:, 0, 0, 0].tolist() == list(range(batch[0, 0, 0, 0], batch[0, 0, 0, 0] + 8))


@pytest.mark.parametrize("size", [4, 10, 64])
def test_batches_of_rows_of_an_array_are_aligned(size):
    rows = np.arange(64 * 8192, dtype=np.float32).reshape(64, 8192)
    dataset = MapDataset.source(rows).shuffle(seed=0).batch(size)
    for batch in [*dataset, *dataset.to_iter_dataset(), *dataset.__getitems__(range(len(dataset)))]:
        assert batch.ctypes.data % allocation.ALIGNMENT == 0
        assert (batch == batch[:, :1] + np.arange(8192)).all()
