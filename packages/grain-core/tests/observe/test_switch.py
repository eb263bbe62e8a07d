"""Observation is switched on for a block, a dataset or the process, and off otherwise."""

from __future__ import annotations

import gc
import os
import pathlib
import subprocess
import sys
import threading
import warnings
import weakref
from typing import Any

import numpy as np
import pytest

import grain

from ..helpers.pipelines import INLINE

M = grain.MapDataset


def plus_one(x: Any) -> Any:
    return x + 1


def is_even(x: Any) -> bool:
    return bool(x % 2 == 0)


def pipeline(count: int = 100) -> grain.IterDataset:
    rows = M.range(count).shuffle(seed=1).map(plus_one)
    return rows.to_iter_dataset(INLINE).filter(is_even).batch(5)


def test_an_iterator_that_is_not_observed_says_how_to_observe_it():
    with pytest.raises(RuntimeError, match=r"not observed.*grain.observing.*GRAIN_OBSERVE"):
        iter(pipeline()).stats()


def test_iterators_of_a_block_are_observed_and_stay_so():
    before = iter(pipeline())
    with grain.observing(name="train") as observation:
        inside = iter(pipeline())
    after = iter(pipeline())
    assert len(list(inside)) == 10
    assert inside.stats().elements == 10
    assert inside.stats().name == "train"
    assert [stats.elements for stats in observation.pipelines] == [10]
    assert observation.stats().nodes[-1].operation == "batch"
    for other in (before, after):
        with pytest.raises(RuntimeError, match="not observed"):
            other.stats()


def test_a_block_without_iterators_says_so():
    with grain.observing() as observation:
        pass
    assert observation.pipelines == ()
    with pytest.raises(RuntimeError, match="No iterator was created"):
        observation.stats()


def test_a_dataset_requests_to_be_observed():
    iterator = iter(pipeline().observe(name="valid").map(plus_one))
    next(iterator)
    assert iterator.stats().name == "valid"
    assert "observe(name='valid')" in repr(pipeline().observe(name="valid"))


def test_observing_a_dataset_keeps_its_fingerprint_and_states():
    plain, observed = iter(pipeline()), iter(pipeline().observe(trace=True))
    for one, other in zip(plain, observed, strict=True):
        np.testing.assert_array_equal(one, other)
        assert plain.state_dict() == observed.state_dict()


def test_a_name_that_is_no_text_is_refused():
    with pytest.raises(TypeError, match="name must be a text, got 3"):
        pipeline().observe(name=3)


def test_a_setting_observes_every_iterator():
    with grain.config.override(observe=True):
        iterator = iter(pipeline())
    assert next(iterator).shape == (5,)
    assert iterator.stats().elements == 1
    with pytest.raises(RuntimeError, match="not observed"):
        iter(pipeline()).stats()


PROGRAM = """
import sys
import threading
import grain

def main():
    ds = grain.MapDataset.range(40).map(abs).to_iter_dataset().batch(4).mp_prefetch(num_workers=2)
    with iter(ds) as iterator:
        count = len(list(iterator))
        stats = iterator.stats()
    print(count, stats.elements, stats.nodes[0].elements_out, stats.executor)

if __name__ == "__main__":
    main()
"""


def test_the_environment_observes_every_iterator_and_no_worker_does(tmp_path: pathlib.Path):
    (tmp_path / "program.py").write_text(PROGRAM)
    done = subprocess.run(
        [sys.executable, str(tmp_path / "program.py")],
        env={**os.environ, "GRAIN_OBSERVE": "1"},
        capture_output=True,
        text=True,
        timeout=100,
        check=True,
    )
    assert done.stdout.split() == ["10", "10", "40", "processes"]
    assert done.stderr == ""


def test_nothing_is_imported_for_programs_that_observe_nothing():
    program = (
        "import sys, grain\n"
        "iterator = iter(grain.MapDataset.range(9).map(abs).to_iter_dataset().batch(2))\n"
        "next(iterator)\n"
        "print([name for name in sys.modules if name.startswith('grain.observe')])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.strip() == "[]"


def test_a_loader_has_statistics():
    loader = grain.load(list(range(20)), num_epochs=1, batch_size=2)
    with grain.observing():
        iterator = iter(loader)
    assert len(list(iterator)) == 10
    stats = iterator.stats()
    assert stats.elements == 10
    assert any(node.operation == "batch" for node in stats.nodes)


def test_a_map_dataset_is_observed_when_it_is_iterated():
    with grain.observing():
        iterator = iter(M.range(6).map(plus_one))
    assert list(iterator) == [1, 2, 3, 4, 5, 6]
    assert [node.operation for node in iterator.stats().nodes] == [
        "range",
        "map",
        "to_iter_dataset",
    ]


def sum_of_others(x: int) -> int:
    return x + sum(M.range(3))


def test_a_dataset_that_a_function_iterates_is_no_pipeline_of_its_own():
    with grain.observing() as observation:
        assert list(M.range(3).map(sum_of_others)) == [3, 4, 5]
    assert len(observation.pipelines) == 1


class Counted(grain.IterDataset):
    """An opaque class that counts how often it is opened."""

    opened = 0

    def __iter__(self) -> grain.DatasetIterator:
        self.opened += 1
        return iter(self._parent)


def test_what_an_opaque_class_writes_to_itself_stays():
    ds = Counted(pipeline())
    with grain.observing() as observation:
        assert len(list(ds)) == 10
        assert len(list(ds)) == 10
    assert ds.opened == 2
    operations = [node.operation for node in observation.stats().nodes]
    assert operations == [
        "range",
        "shuffle",
        "map",
        "to_iter_dataset",
        "filter",
        "batch",
        "Counted",
    ]
    assert observation.stats().node(2).elements_out == 100


class SelfIterating(grain.IterDataset, grain.DatasetIterator):
    """A dataset that is an iterator over itself."""

    def __init__(self) -> None:
        grain.IterDataset.__init__(self)
        self._next = 0

    def __iter__(self) -> Any:
        return self

    def __next__(self) -> int:
        self._next += 1
        return self._next

    def get_state(self) -> int:
        return self._next

    def set_state(self, state: int) -> None:
        self._next = state


def test_a_dataset_that_is_its_own_iterator_is_left_alone():
    ds = SelfIterating()
    with grain.observing() as observation:
        assert iter(ds) is ds
    assert observation.pipelines == ()


def test_a_dropped_iterator_is_freed_at_once():
    with grain.observing() as observation:
        iterator = iter(pipeline())
    next(iterator)
    gc.collect()
    gc.disable()
    try:
        dropped = weakref.ref(iterator)
        del iterator
        assert dropped() is None
    finally:
        gc.enable()
    assert observation.stats().elements == 1


def test_listeners_are_called_while_the_consumer_iterates():
    seen: list[int] = []
    with grain.observing() as observation:
        observation.add_listener(lambda stats: seen.append(stats.elements), elements=2)
        iterator = iter(pipeline())
    for _ in iterator:
        pass
    assert seen == sorted(seen)
    assert 1 <= len(seen) <= 5
    with pytest.raises(ValueError, match="add_listener needs `seconds`, `elements`"):
        observation.add_listener(print)


def fail(stats: Any) -> None:
    raise OSError("disk full")


def test_a_listener_that_raises_is_reported_once_and_the_stream_continues():
    with grain.observing() as observation:
        iterator = iter(M.range(50).map(plus_one).to_iter_dataset(INLINE).batch(2))
        observation.add_listener(fail, elements=1)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            assert len(list(iterator)) == 25
    found = [str(entry.message) for entry in caught if "listener" in str(entry.message)]
    assert len(found) == 1
    assert "disk full" in found[0]


def test_iterators_that_another_thread_creates_in_the_block_are_observed():
    with grain.observing() as observation:
        thread = threading.Thread(target=lambda: list(pipeline()))
        thread.start()
        thread.join()
    assert observation.stats().elements == 10


def test_what_a_dataset_a_block_and_a_setting_request_is_joined():
    mode = grain.experimental.ExecutionTrackingMode.STAGE_TIMING
    options = grain.experimental.DatasetOptions(execution_tracking_mode=mode)
    ds = grain.MapDataset.range(4).to_iter_dataset(INLINE)
    timed = grain.experimental.WithOptionsIterDataset(ds, options)
    iterator = iter(timed)
    assert len(list(iterator)) == 4
    assert not iterator.stats().spans
    with grain.config.override(py_debug_mode=True):
        iterator = iter(timed)
        assert len(list(iterator)) == 4
    assert iterator.stats().spans
    with grain.observing(name="block", trace=True):
        iterator = iter(ds.observe(name="own"))
        assert len(list(iterator)) == 4
    assert iterator.stats().spans
    assert iterator.stats().name == "own"


def test_blocks_nest():
    with grain.observing(name="outer") as outer:
        with grain.observing(name="inner") as inner:
            list(pipeline())
        list(pipeline())
    assert [stats.name for stats in inner.pipelines] == ["inner"]
    assert [stats.name for stats in outer.pipelines] == ["outer"]
