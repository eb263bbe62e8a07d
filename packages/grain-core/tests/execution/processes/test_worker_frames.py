"""Errors of workers keep their frames, and `sys.exit()` in a worker does not end the program."""

from __future__ import annotations

import sys
import traceback

import pytest

import grain

Map = grain.MapDataset
ONE_WORKER = grain.MultiprocessingOptions(num_workers=1)


def outer(x):
    return inner(x)


def inner(x):
    if x == 3:
        raise ValueError("three")
    return x


def leave(x):
    sys.exit("enough")


def error_of(ds):
    with pytest.raises(Exception) as caught:  # noqa: PT011 - the caller checks it
        list(ds)
    return caught.value


def names_in(error):
    return [frame.name for frame in traceback.extract_tb(error.__traceback__)]


@pytest.mark.parametrize(
    "ds",
    [
        Map.range(5).map(outer).to_iter_dataset(),
        Map.range(5).to_iter_dataset().map(outer),
        Map.range(5).to_iter_dataset().filter(lambda x: True).batch(1).map(lambda b: outer(b[0])),
    ],
    ids=["map", "stage", "offloaded"],
)
def test_the_users_functions_are_in_the_traceback(ds):
    error = error_of(ds.mp_prefetch(ONE_WORKER))
    assert isinstance(error, ValueError)
    assert names_in(error)[-2:] == ["outer", "inner"]
    last = traceback.extract_tb(error.__traceback__)[-1]
    assert last.line == 'raise ValueError("three")'
    assert "three" in "".join(traceback.format_exception(error))


def test_sys_exit_in_a_worker_is_an_error_that_names_the_operation():
    error = error_of(Map.range(5).map(leave).to_iter_dataset().mp_prefetch(ONE_WORKER))
    assert isinstance(error, RuntimeError)
    assert "sys.exit('enough') was called in a worker process, in MapMapDataset" in str(error)


@pytest.mark.parametrize("workers", [0, 1])
def test_the_librarys_frames_can_be_hidden(workers):
    ds = Map.range(5).map(outer).to_iter_dataset()
    ds = ds.mp_prefetch(grain.MultiprocessingOptions(num_workers=workers))
    before = grain.config.py_traceback_filtering
    grain.config.update("py_traceback_filtering", "remove_frames")
    try:
        found = traceback.extract_tb(error_of(ds).__traceback__)
    finally:
        grain.config.update("py_traceback_filtering", before)
    assert not [frame.name for frame in found if "/grain/dataset/" in frame.filename]
    assert [frame.name for frame in found][-2:] == ["outer", "inner"]
