"""What goes wrong in a worker arrives as if it had gone wrong here, and says where it did."""

from __future__ import annotations

import os
import re
import threading
import traceback
from typing import Any

import numpy as np
import pytest

import grain
from grain._policy import use_policy

from ..helpers.pipelines import step, steps, with_workers
from .pipelines import Lines, OwnIterDataset, heavy, odd, plus_one, rows

X = grain.experimental


class DecodingError(ValueError):
    """An exception of the user's own, with more than a message."""

    def __init__(self, message: str, record: int):
        super().__init__(message, record)
        self.record = record


def decode(x: int) -> int:
    if x == 5:
        raise DecodingError("broken image", record=x)
    return x


def decode_with_index(index: int, x: int) -> int:
    return decode(x)


def decode_array(x: np.ndarray) -> np.ndarray:
    decode(int(x[0]))
    return x


WHERE = {
    "a map dataset": (
        lambda: grain.MapDataset.range(20).map(decode).to_iter_dataset().batch(2),
        r"raised in MapMapDataset\(transform=decode .*\) at index 5, over RangeMapDataset",
    ),
    "an iter dataset": (
        lambda: rows(20).filter(lambda x: True).map(decode),
        r"raised in MapIterDataset\(transform=decode .*\), over RangeMapDataset",
    ),
    "an index": (
        lambda: rows(20).map_with_index(decode_with_index),
        r"raised in MapWithIndexIterDataset\(transform=decode_with_index .*\) at index 5, over",
    ),
    "a function above packing": (
        lambda: (
            X.FirstFitPackIterDataset(
                grain.MapDataset.source([{"x": np.array([i])} for i in range(20)]).to_iter_dataset(),
                length_struct={"x": 1},
                num_packing_bins=1,
            ).map(heavy).map(lambda packed: decode_array(packed["x"]))
        ),
        r"raised in MapIterDataset\(transform=<lambda> .*\), over SourceMapDataset",
    ),
    "a stream": (
        lambda: Lines(0, 20).map(decode),
        r"raised in MapIterDataset\(transform=decode .*\), over Lines",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", WHERE)
def test_an_exception_arrives_with_its_type_contents_traceback_and_notes(name: str) -> None:
    build, note = WHERE[name]
    with iter(with_workers(build(), 2)) as iterator:
        with pytest.raises(DecodingError) as caught:
            list(iterator)
        error = caught.value
        assert type(error) is DecodingError
        assert error.record == 5
        shown = "".join(traceback.format_exception(error))
        assert re.search(note, "\n".join(error.__notes__))
        # The worker's own traceback, down to the line that raised.
        assert re.search(r"In worker \d of 2:", shown)
        assert 'raise DecodingError("broken image", record=x)' in shown
        assert f'File "{__file__}"' in shown
        # The stream continues, as it does without workers.
        alone = iter(build())
        expected = steps(alone)
        behind = [seen[0] for seen in expected].index("error") + 1
        assert step(iterator) == expected[behind]


def test_the_elements_before_the_error_come_first() -> None:
    with iter(with_workers(rows(100).map(decode), 3, per_worker_buffer_size=50)) as iterator:
        assert [next(iterator) for _ in range(5)] == [0, 1, 2, 3, 4]
        with pytest.raises(DecodingError):
            next(iterator)
        assert list(iterator) == list(range(6, 100))


def test_an_exception_that_cannot_be_pickled_arrives_in_words() -> None:
    def fail(x: int) -> int:
        error = LookupError("holds a lock")
        error.lock = threading.Lock()
        raise error

    with iter(with_workers(rows(3).map(fail), 1)) as iterator:
        with pytest.raises(RuntimeError, match="LookupError: holds a lock") as caught:
            next(iterator)
        assert "raise error" in str(caught.value.__cause__)


def test_sys_exit_in_a_worker_is_no_silent_end() -> None:
    def leave(x: int) -> int:
        raise SystemExit(3)

    with (
        iter(with_workers(rows(3).map(leave), 1)) as iterator,
        pytest.raises(RuntimeError, match=r"sys\.exit\(3\) was called in a worker process"),
    ):
        next(iterator)


@pytest.mark.usefixtures("leaves_nothing")
def test_what_cannot_be_pickled_is_named_with_its_operation() -> None:
    lock = threading.Lock()

    def guarded(x: int) -> int:
        with lock:
            return x

    class Holder:
        def __init__(self) -> None:
            self.lock = lock

        def __len__(self) -> int:
            return 3

        def __getitem__(self, index: int) -> int:
            return index

    cases: list[tuple[grain.IterDataset, str]] = [
        (rows(9).map(plus_one).map(guarded).batch(2), "MapIterDataset(transform=guarded"),
        (grain.MapDataset.range(9).map(guarded).to_iter_dataset(), "MapMapDataset(transform=guar"),
        (grain.MapDataset.source(Holder()).to_iter_dataset(), "SourceMapDataset(source=Holder"),
        (rows(9).filter(odd).batch(2).map(guarded), "MapIterDataset(transform=guarded"),
        (Lines(0, 9).map(plus_one).filter(guarded), "FilterIterDataset(transform=guarded"),
        (rows(9).batch(2, batch_fn=guarded), "BatchIterDataset(batch_size=2"),
    ]
    for dataset, operation in cases:
        with iter(with_workers(dataset, 2)) as iterator:
            with pytest.raises(TypeError) as caught:
                next(iterator)
            message = str(caught.value)
            assert operation in message
            assert "is a _thread.lock" in message
            assert "Create it inside the worker instead" in message


def test_what_cannot_be_pickled_is_named_also_when_it_comes_late() -> None:
    lock = threading.Lock()
    parts = [rows(3), rows(3), rows(3), rows(3).map(lambda x: (lock, x))]
    dataset = X.InterleaveIterDataset(parts, cycle_length=1)
    with iter(with_workers(dataset, 2)) as iterator:
        assert [next(iterator) for _ in range(9)] == [0, 1, 2] * 3
        with pytest.raises(
            TypeError, match=r"send MapIterDataset\(transform=<lambda>.*is a _thread"
        ):
            next(iterator)


def test_what_stays_here_need_not_be_picklable() -> None:
    class Guarded(OwnIterDataset):
        def __init__(self, parent: Any):
            super().__init__(parent)
            self.lock = threading.Lock()

    ds = Guarded(rows(9)).map(heavy)
    assert list(with_workers(ds, 2)) == list(ds)


def test_an_element_that_cannot_be_sent_is_an_error_that_names_the_operation() -> None:
    def maybe(x: int) -> Any:
        return threading.Lock() if x == 12 else x

    for dataset in (rows(20).map(maybe), Lines(0, 20).map(maybe)):
        with iter(with_workers(dataset, 1)) as iterator:
            assert [next(iterator) for _ in range(12)] == list(range(12))
            state = iterator.get_state()
            # It is asked for again: nothing is lost without a word.
            for _ in range(2):
                with pytest.raises(TypeError, match=r"cannot pickle '_thread\.lock'") as caught:
                    next(iterator)
                assert "MapIterDataset(transform=maybe" in "".join(caught.value.__notes__)
                assert iterator.get_state() == state


def test_a_stream_that_cannot_be_opened_says_so_each_time() -> None:
    class Missing(grain.IterDataset):
        def __iter__(self) -> Any:
            raise FileNotFoundError("no such file: shard-7")

    dataset = X.InterleaveIterDataset([Lines(0, 2), Missing()], cycle_length=1)
    with iter(with_workers(dataset, 2)) as iterator:
        assert [next(iterator), next(iterator)] == [0, 1]
        for _ in range(2):
            with pytest.raises(FileNotFoundError, match="shard-7"):
                next(iterator)


def test_an_error_in_worker_init_fn_is_raised() -> None:
    def init(index: int, count: int) -> None:
        raise PermissionError(f"no license for {index} of {count}")

    ds = rows(9).mp_prefetch(grain.MultiprocessingOptions(1), worker_init_fn=init)
    with iter(ds) as iterator, pytest.raises(PermissionError, match="no license for 0 of 1"):
        next(iterator)


def test_a_worker_that_dies_is_an_error_each_time() -> None:
    def die(x: int) -> int:
        if x == 3:
            os._exit(7)
        return x

    for dataset in (rows(9).map(die), Lines(0, 9).map(die)):
        with iter(with_workers(dataset, 1, max_worker_restarts=0)) as iterator:
            seen = []
            with pytest.raises(RuntimeError, match=r"Worker 0 of 1 .* exit code 7"):
                seen += iterator
            state = iterator.get_state()
            for _ in range(2):
                with pytest.raises(RuntimeError, match=r"Worker 0 of 1 .* exit code 7"):
                    next(iterator)
            assert iterator.get_state() == state


@pytest.mark.parametrize("count", [0, 2])
def test_a_filter_that_keeps_next_to_nothing_is_warned_about_by_name(
    count: int, caplog: pytest.LogCaptureFixture
) -> None:
    cases = [
        (rows(3000).filter(lambda x: x == 0).map(plus_one), "Filter.*<lambda>"),
        (
            grain.MapDataset.range(3000).filter(odd).filter(lambda x: x == 1).to_iter_dataset(),
            "Pre",
        ),
    ]
    for dataset, name in cases:
        caplog.clear()
        with use_policy(drop_warning_seconds=0):
            assert len(list(with_workers(dataset, count))) == 1
        assert re.search(rf"Transformation {name}.* skipped", caplog.text)
        strict = grain.experimental.WithOptionsIterDataset(
            dataset, grain.experimental.DatasetOptions(filter_raise_threshold_ratio=0.5)
        )
        with pytest.raises(ValueError, match=rf"Transformation {name}.* skipped"):
            list(with_workers(strict, count))


def test_a_remainder_that_is_dropped_is_no_filter() -> None:
    assert list(with_workers(rows(1500).batch(2000, drop_remainder=True), 2)) == []
