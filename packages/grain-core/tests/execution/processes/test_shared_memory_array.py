import copy
import gc
import os
import pickle
import subprocess
import sys
from multiprocessing import shared_memory

import numpy as np
import pytest

from grain import multiprocessing as gm
from grain.multiprocessing import SharedMemoryArray, SharedMemoryArrayMetadata


def exists(name):
    return os.path.exists(f"/dev/shm/{name}")


@pytest.fixture
def array():
    array = SharedMemoryArray((2, 3), np.int32)
    array.unlink_on_del()
    array[:] = np.arange(6).reshape(2, 3)
    return array


def test_the_module_offers_the_options_too():
    assert set(gm.__all__) == {
        "MultiprocessingOptions",
        "SharedMemoryArray",
        "SharedMemoryArrayMetadata",
    }
    assert gm.MultiprocessingOptions(num_workers=2).num_workers == 2


def test_metadata_says_where_and_what_the_array_is(array):
    metadata = array.metadata
    assert exists(metadata.name)
    assert metadata == SharedMemoryArrayMetadata(metadata.name, (2, 3), np.dtype("int32"))
    assert hash(metadata) == hash(array.metadata)
    with pytest.raises(AttributeError):
        metadata.name = "other"


def test_the_default_type_is_float_and_new_memory_is_zero():
    array = SharedMemoryArray([4])
    array.unlink_on_del()
    assert array.dtype == np.float64
    assert array.tolist() == [0, 0, 0, 0]


def test_what_one_array_writes_the_other_reads(array):
    other = SharedMemoryArray.from_metadata(array.metadata)
    other[1, 2] = 99
    assert array[1, 2] == 99
    assert other.metadata == array.metadata


def test_pickling_passes_on_the_memory_itself(array):
    other = pickle.loads(pickle.dumps(array))
    other[0, 0] = -1
    assert array[0, 0] == -1
    assert type(other) is SharedMemoryArray


@pytest.mark.parametrize("cut", [np.s_[1], np.s_[:, 1:], np.s_[::-1, ::2], np.s_[1, 2:]])
def test_a_view_is_pickled_as_the_same_view(array, cut):
    other = pickle.loads(pickle.dumps(array[cut]))
    np.testing.assert_array_equal(other, array[cut])
    other[...] = 50
    assert (array[cut] == 50).all()


def test_another_process_sees_the_array(array):
    code = (
        "import sys, pickle\n"
        "array = pickle.load(sys.stdin.buffer)\n"
        "print(int(array.sum()))\n"
        "array += 1\n"
        # Before 3.13 a process that only opens shared memory would remove it when it ends.
        "from multiprocessing import resource_tracker\n"
        "resource_tracker.unregister(array.shm._name, 'shared_memory')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        input=pickle.dumps(array),
        capture_output=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)},
        check=True,
    )
    assert done.stdout == b"15\n"
    assert int(array.sum()) == 21


def test_memory_is_removed_only_by_an_array_that_unlinks_on_deletion():
    array = SharedMemoryArray((8,), np.uint8)
    name = array.metadata.name
    other = SharedMemoryArray.from_metadata(array.metadata)
    del array
    gc.collect()
    assert exists(name)
    other.unlink_on_del()
    other.unlink_on_del()
    assert exists(name)
    view = other[2:]
    del other
    gc.collect()
    assert exists(name)
    assert view.sum() == 0
    del view
    gc.collect()
    assert not exists(name)


def test_memory_can_be_removed_by_what_tells_where_it_is():
    array = SharedMemoryArray((2, 3), np.int32)
    array[:] = 7
    metadata = pickle.loads(pickle.dumps(array.metadata))
    assert metadata.close_and_unlink_shm() is None
    for use in (metadata.close_and_unlink_shm, lambda: SharedMemoryArray.from_metadata(metadata)):
        with pytest.raises(FileNotFoundError, match=metadata.name):
            use()
    # Who has it open may go on.
    assert int(array.sum()) == 42
    assert array.metadata == metadata


def test_results_of_arithmetic_are_plain_arrays(array):
    assert type(array + 1) is np.ndarray
    assert type(array.mean(axis=0)) is np.ndarray
    assert type(array.sum()) is np.int64
    assert type(np.asarray(array)) is np.ndarray
    assert type(np.stack([array, array])) is np.ndarray
    array += 1
    assert type(array) is SharedMemoryArray
    assert np.add(array, 1, out=array) is array


def test_a_copy_is_no_longer_in_shared_memory(array):
    for other in (array.copy(), array.astype(float), copy.deepcopy(array), np.empty_like(array)):
        with pytest.raises(AssertionError):
            _ = other.metadata
        del other
    again = pickle.loads(pickle.dumps(array.copy()))
    np.testing.assert_array_equal(again, array)
    again[:] = 0
    assert array.any()
    assert exists(array.metadata.name)


def test_bad_shapes_are_refused_as_shared_memory_does():
    with pytest.raises(ValueError, match="'size' must be a positive number"):
        SharedMemoryArray((0, 3))
    with pytest.raises(TypeError, match="not iterable"):
        SharedMemoryArray(5)
    with pytest.raises(FileNotFoundError):
        SharedMemoryArray.from_metadata(SharedMemoryArrayMetadata("grain_missing", (1,), float))


def test_from_shared_memory_checks_the_size():
    memory = shared_memory.SharedMemory(create=True, size=64)
    array = SharedMemoryArray.from_shared_memory(memory, (8,), np.float64)
    array.unlink_on_del()
    assert array.metadata.name == memory.name
    with pytest.raises(TypeError, match="too small"):
        SharedMemoryArray.from_shared_memory(memory, (800,), np.float64)


def test_arrays_may_be_removed_in_the_background():
    memory = shared_memory.SharedMemory(create=True, size=8)
    with pytest.raises(AssertionError):
        SharedMemoryArray.close_shm_async(memory, True)
    SharedMemoryArray.enable_async_del(num_threads=2, max_outstanding_requests=1)
    try:
        SharedMemoryArray.enable_async_del()
        SharedMemoryArray.close_shm_async(memory, True)
        names = [memory.name]
        for _ in range(10):
            array = SharedMemoryArray((3,))
            array.unlink_on_del()
            names.append(array.metadata.name)
            del array
    finally:
        SharedMemoryArray._disable_async_del()  # waits for what is under way
    assert not any(exists(name) for name in names)


@pytest.mark.parametrize("background", [True, False])
def test_arrays_alive_at_exit_go_without_a_word(background):
    code = (
        "import sys, numpy as np\n"
        "from grain.multiprocessing import SharedMemoryArray as S\n"
        f"if {background}: S.enable_async_del()\n"
        "keep = S((3,)); keep.unlink_on_del(); view = keep[1:]\n"
        "sys.keep = [keep, view]\n"
        "print(keep.metadata.name)\n"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)},
        check=True,
    )
    assert done.stderr == ""
    assert not exists(done.stdout.strip())
