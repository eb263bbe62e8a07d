"""Every case runs with this project and has the right outputs."""

from __future__ import annotations

import itertools
import math
import tomllib

import numpy as np
import pytest
from benchmarks import cases, checks, data, measure, peers
from benchmarks.checks import WrongOutputError
from benchmarks.command import ROOT
from benchmarks.peers import grain_api, plain_loop


@pytest.mark.parametrize("name", cases.BY_NAME)
def test_a_case_runs_and_its_first_outputs_are_right(name, files):
    case = cases.BY_NAME[name]
    make = grain_api.programs(files).get(name, tuple)
    value = measure.measure(case, make, peers.BY_NAME[peers.OURS].imports, seconds=0.01)
    assert math.isfinite(value)
    assert value > 0


@pytest.mark.parametrize("name", [name for name in cases.BY_NAME if name not in plain_loop.LACKS])
def test_a_plain_loop_does_the_same_work(name, files):
    make = plain_loop.programs(files).get(name, tuple)
    value = measure.measure(cases.BY_NAME[name], make, "import numpy", seconds=0.005)
    assert math.isfinite(value)
    assert value > 0


def test_every_case_has_a_plain_loop_or_a_reason_for_none(files):
    covered = set(plain_loop.programs(files)) | set(plain_loop.LACKS) | {"import"}
    assert covered == set(cases.BY_NAME)


def test_this_project_has_every_case_and_no_other(files):
    assert set(grain_api.programs(files)) | {"import"} == set(cases.BY_NAME)
    assert not grain_api.LACKS


def test_cases_of_the_same_name_do_not_exist():
    assert len(cases.BY_NAME) == len(cases.ALL)


def test_each_peer_has_a_dependency_group_in_the_same_order():
    groups = tomllib.loads((ROOT / "pyproject.toml").read_text())["dependency-groups"]
    of_peers = [group for group in groups if group.startswith("bench-")]
    assert of_peers == [f"bench-{peer.name}" for peer in peers.ALL]
    assert [peer.group for peer in peers.ALL] == of_peers


def test_files_are_created_once(files):
    before = {path: path.stat().st_mtime_ns for path in files.folder.iterdir()}
    data.make(files.folder)
    assert {path: path.stat().st_mtime_ns for path in files.folder.iterdir()} == before


def test_files_of_another_version_are_created_again(tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data/complete-0").touch()
    sizes = data.Sizes(images=4, small_files=4, lines=2, records=2, rows=2)
    made = data.make(tmp_path / "data", sizes)
    assert not (tmp_path / "data/complete-0").exists()
    assert len(made.image_files) == len(made.small_files) == len(made.image_shards) == 4
    assert len(made.lines()) == 2


# --- checks --------------------------------------------------------------------------------------

SHUFFLED = np.arange(128)[::-1] + 1
IMAGE = np.arange(2 * 224 * 224 * 3, dtype=np.float32).reshape(2, 224, 224, 3) / 1e6
TABLE = {"id": np.arange(2), "x": np.ones(2), "text": ["w0 " * 8, "w1 " * 8]}

WRONG = {
    "nothing": (checks.anything, {}, []),
    "a batch of another size": (checks.ints, {"size": 4, "low": 0, "high": 9}, [np.arange(3)]),
    "fractions": (checks.ints, {"size": 3, "low": 0, "high": 9}, [np.arange(3.0)]),
    "numbers too large": (checks.ints, {"size": 3, "low": 0, "high": 2}, [np.arange(3)]),
    "odd numbers": (checks.ints, {"size": 3, "low": 0, "high": 9, "step": 2}, [np.arange(3)]),
    "not from the start": (checks.in_order, {"size": 2}, [np.array([1, 2])]),
    "arrays for elements": (checks.elements, {}, [np.arange(2)]),
    "in order": (checks.shuffled, {"size": 3, "low": 0, "high": 9}, [np.arange(3)]),
    "other lengths": (checks.constant, {"size": 2, "value": 3}, [np.array([3, 4])]),
    "images that are not normal": (
        checks.images,
        {"size": 2, "dtype": "float32", "labelled": False},
        [IMAGE * 255],
    ),
    "blank images": (
        checks.images,
        {"size": 2, "dtype": "float32", "labelled": False},
        [np.zeros_like(IMAGE)],
    ),
    "images of another type": (
        checks.images,
        {"size": 2, "dtype": "uint8", "labelled": False},
        [IMAGE],
    ),
    "images of another size": (
        checks.images,
        {"size": 2, "dtype": "float32", "labelled": False},
        [IMAGE[:, 1:]],
    ),
    "too few labels": (
        checks.images,
        {"size": 2, "dtype": "float32", "labelled": True},
        [{"image": IMAGE, "label": np.arange(1)}],
    ),
    "an array of another shape": (checks.arrays, {"shape": (2,), "dtype": "int64"}, [SHUFFLED]),
    "an array of another type": (checks.arrays, {"shape": (128,), "dtype": "int8"}, [SHUFFLED]),
    "rows with padding": (checks.rows, {"shape": (3,), "full": True}, [np.array([1, 2, 0])]),
    "rows of padding": (checks.rows, {"shape": (3,), "full": False}, [np.zeros(3, np.int32)]),
    "rows of fractions": (checks.rows, {"shape": (3,), "full": False}, [np.ones(3)]),
    "short rows": (checks.rows, {"shape": (4,), "full": False}, [np.ones(3, np.int32)]),
    "a missing column": (checks.table, {"size": 2}, [{"id": np.arange(2)}]),
    "other rows": (checks.table, {"size": 2}, [{**TABLE, "id": np.arange(1, 3)}]),
    "another text": (checks.table, {"size": 2}, [{**TABLE, "text": ["w1 ", "w2 "]}]),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_check_refuses(name):
    check, expected, outputs = WRONG[name]
    with pytest.raises(WrongOutputError, match=r"expected .*, got "):
        check(outputs, **expected)


def test_checks_accept_arrays_in_dicts_and_tuples_of_one():
    for output in (SHUFFLED, {"x": SHUFFLED}, (SHUFFLED,), [SHUFFLED]):
        checks.shuffled([output], size=128, low=1, high=129)
    checks.images([IMAGE], size=2, dtype="float32", labelled=False)
    checks.table([TABLE], size=2)
    checks.table([{**TABLE, "text": [b"w0 " * 8, b"w1 " * 8]}], size=2)


# --- measuring -----------------------------------------------------------------------------------


class Counted:
    """Three outputs, and the number of iterators made and closed."""

    def __init__(self) -> None:
        self.made = 0
        self.closed = 0

    def __call__(self):
        self.made += 1
        try:
            yield from range(3)
        finally:
            self.closed += 1


def test_a_pipeline_that_ends_is_restarted_and_closed_each_time():
    counted = Counted()
    stream = measure.endlessly(counted)
    assert list(itertools.islice(stream, 7)) == [0, 1, 2, 0, 1, 2, 0]
    stream.close()
    assert counted.made == counted.closed == 3


def test_a_pipeline_without_outputs_is_an_error_and_not_an_endless_loop():
    with pytest.raises(ValueError, match="no outputs"):
        next(measure.endlessly(list))


def test_a_program_with_other_outputs_is_not_measured():
    with pytest.raises(WrongOutputError):
        measure.measure(cases.BY_NAME["range_batch"], lambda: [np.zeros(128)] * 9, "grain", 0.01)


def test_memory_without_workers_is_an_error():
    case = cases.BY_NAME["memory_list_mp2"]
    outputs = [np.arange(128)[::-1].copy() for _ in range(20)]
    with pytest.raises(ValueError, match="expected 2 workers"):
        measure.memory(case, lambda: outputs)
