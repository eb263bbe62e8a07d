"""Options: what they refuse, what they say, and how several of them come together."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import grain
from grain.experimental import DatasetOptions, ExecutionTrackingMode


@pytest.mark.parametrize(
    ("kind", "arguments", "error", "message"),
    [
        (
            grain.ReadOptions,
            {"num_threads": -1},
            ValueError,
            "num_threads must be non-negative, got -1",
        ),
        (
            grain.ReadOptions,
            {"num_threads": "4"},
            TypeError,
            "num_threads must be an integer, got '4'",
        ),
        (grain.ReadOptions, {"num_threads": True}, TypeError, "got True of type bool"),
        (grain.ReadOptions, {"num_threads": None}, TypeError, "got None of type NoneType"),
        (
            grain.ReadOptions,
            {"prefetch_buffer_size": -1},
            ValueError,
            "prefetch_buffer_size must be",
        ),
        (grain.ReadOptions, {"prefetch_buffer_size": 1.5}, TypeError, r"got 1\.5 of type float"),
        (grain.MultiprocessingOptions, {"num_workers": -1}, ValueError, "num_workers must be"),
        (
            grain.MultiprocessingOptions,
            {"num_workers": "2"},
            TypeError,
            "num_workers must be an int",
        ),
        (
            grain.MultiprocessingOptions,
            {"per_worker_buffer_size": 0},
            ValueError,
            "per_worker_buffer_size must be positive, got 0",
        ),
        (
            grain.MultiprocessingOptions,
            {"per_worker_buffer_size": None},
            TypeError,
            "per_worker_buffer_size must be an integer",
        ),
    ],
)
def test_options_refuse(kind, arguments, error, message):
    with pytest.raises(error, match=message):
        kind(**arguments)


def test_options_have_the_defaults_users_know():
    assert grain.ReadOptions() == grain.ReadOptions(num_threads=16, prefetch_buffer_size=500)
    assert grain.MultiprocessingOptions() == grain.MultiprocessingOptions(
        num_workers=0, per_worker_buffer_size=1, enable_profiling=False
    )
    assert DatasetOptions().filter_warn_threshold_ratio == 0.9
    assert DatasetOptions().filter_raise_threshold_ratio is None
    assert DatasetOptions().execution_tracking_mode is ExecutionTrackingMode.DISABLED


def test_numbers_of_numpy_become_python_s():
    assert repr(grain.ReadOptions(np.int64(2), np.uint8(3))) == repr(grain.ReadOptions(2, 3))
    assert type(grain.MultiprocessingOptions(np.int32(2)).num_workers) is int


def test_the_number_of_workers_may_be_left_to_the_library():
    assert grain.MultiprocessingOptions(num_workers=None).num_workers is None


@pytest.mark.parametrize(
    "options",
    [grain.ReadOptions(3, 4), grain.MultiprocessingOptions(2), DatasetOptions(min_shm_size=5)],
    ids=lambda options: type(options).__name__,
)
def test_options_can_be_pickled(options):
    assert pickle.loads(pickle.dumps(options)) == options


def test_merged_options_take_what_was_given_and_the_first_of_both():
    first = DatasetOptions(filter_warn_threshold_ratio=0.1)
    second = DatasetOptions(filter_warn_threshold_ratio=0.2, filter_raise_threshold_ratio=0.3)
    merged = first.merge(second)
    assert merged.filter_warn_threshold_ratio == 0.1
    assert merged.filter_raise_threshold_ratio == 0.3
    assert first.merge(None) is first
    # Given to be the default is given all the same.
    explicit = DatasetOptions(filter_warn_threshold_ratio=0.9)
    assert explicit.merge(second).filter_warn_threshold_ratio == 0.9
    assert DatasetOptions().merge(second).filter_warn_threshold_ratio == 0.2
    assert (
        DatasetOptions(filter_raise_threshold_ratio=None).merge(second).filter_raise_threshold_ratio
        is None
    )


def test_dataset_options_are_given_by_name_and_stay_as_they_are():
    with pytest.raises(TypeError):
        DatasetOptions(0.5)
    with pytest.raises(AttributeError):
        DatasetOptions().min_shm_size = 3
