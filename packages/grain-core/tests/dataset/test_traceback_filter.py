"""`py_traceback_filtering`: the frames that a traceback shows, as observed in google/grain 0.2.18."""

from __future__ import annotations

import gc
import sys
import traceback
import types
import weakref

import pytest

import grain
from grain.dataset.traceback_filter import LIBRARY, UnfilteredTraceback

Map = grain.MapDataset


def outer(x):
    return inner(x)


def inner(x):
    if x == 3:
        raise ValueError("three")
    return x


class Outer(grain.transforms.Map):
    def map(self, element):
        return outer(element)


def loader():
    sampler = grain.samplers.IndexSampler(5, grain.sharding.NoSharding(), num_epochs=1)
    return grain.DataLoader(data_source=list(range(5)), sampler=sampler, operations=[Outer()])


PIPELINES = {
    "map": lambda: Map.range(5).map(outer),
    "iter": lambda: Map.range(5).to_iter_dataset().map(outer).batch(2),
    "loader": loader,
    "threads": lambda: grain.experimental.ThreadPrefetchIterDataset(
        Map.range(5).to_iter_dataset().map(outer), prefetch_buffer_size=2
    ),
}


def error_of(ds):
    with pytest.raises(ValueError, match="three") as caught, iter(ds) as iterator:
        for _ in iterator:
            pass
    return caught.value


def frames_of(error):
    return [frame for frame, _ in traceback.walk_tb(error.__traceback__)]


def of_library(frames):
    return [frame for frame in frames if frame.f_code.co_filename.startswith(LIBRARY)]


def notes_of(error):
    return [note for note in getattr(error, "__notes__", ()) if "py_traceback_filtering" in note]


@pytest.mark.parametrize("pipeline", PIPELINES)
@pytest.mark.parametrize("mode", ["auto", "quiet_remove_frames"])
def test_the_librarys_frames_are_removed_with_a_note(pipeline, mode):
    with grain.config.override(py_traceback_filtering=mode):
        error = error_of(PIPELINES[pipeline]())
    assert [frame.f_code.co_name for frame in frames_of(error)][-2:] == ["outer", "inner"]
    assert not of_library(frames_of(error))
    assert len(notes_of(error)) == 1
    assert error.__cause__ is None


def test_frames_are_removed_by_default():
    assert grain.config.py_traceback_filtering == "auto"
    assert not of_library(frames_of(error_of(PIPELINES["iter"]())))


@pytest.mark.parametrize("pipeline", PIPELINES)
def test_the_full_traceback_can_be_kept_as_the_cause(pipeline):
    with grain.config.override(py_traceback_filtering="remove_frames"):
        error = error_of(PIPELINES[pipeline]())
    assert not of_library(frames_of(error))
    assert not notes_of(error)
    assert isinstance(error.__cause__, UnfilteredTraceback)
    assert "ValueError: three" in str(error.__cause__)
    assert of_library(frames_of(error.__cause__))
    assert error.__cause__.__cause__ is None
    shown = "".join(traceback.format_exception(error))
    assert shown.index("UnfilteredTraceback") < shown.rindex("in inner")


@pytest.mark.parametrize("pipeline", PIPELINES)
def test_frames_can_be_marked_for_tools_that_hide_them(pipeline):
    with grain.config.override(py_traceback_filtering="tracebackhide"):
        error = error_of(PIPELINES[pipeline]())
    inside = of_library(frames_of(error))
    assert inside
    assert all(frame.f_locals.get("__tracebackhide__") is True for frame in inside)
    users = [frame for frame in frames_of(error) if frame not in inside]
    assert not any("__tracebackhide__" in frame.f_locals for frame in users)
    assert not notes_of(error)


@pytest.mark.parametrize("pipeline", PIPELINES)
def test_nothing_is_filtered_when_it_is_off(pipeline):
    with grain.config.override(py_traceback_filtering="off"):
        error = error_of(PIPELINES[pipeline]())
    inside = of_library(frames_of(error))
    assert inside
    assert not any("__tracebackhide__" in frame.f_locals for frame in inside)
    assert not notes_of(error)


def test_auto_marks_frames_in_ipython(monkeypatch):
    shell = types.SimpleNamespace(get_ipython=object)
    monkeypatch.setitem(sys.modules, "IPython", shell)
    marked = of_library(frames_of(error_of(PIPELINES["map"]())))
    assert marked
    assert all(frame.f_locals["__tracebackhide__"] for frame in marked)
    monkeypatch.setattr(shell, "get_ipython", lambda: None)  # Imported, but not running.
    assert not of_library(frames_of(error_of(PIPELINES["map"]())))


def test_an_element_by_index_keeps_all_frames():
    with pytest.raises(ValueError, match="three") as caught:
        Map.range(5).map(outer)[3]
    assert of_library(frames_of(caught.value))


def test_an_interrupt_keeps_all_frames():
    def interrupt(x):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt) as caught:
        next(iter(Map.range(5).map(interrupt)))
    assert of_library(frames_of(caught.value))


@pytest.mark.parametrize("mode", ["off", "auto", "remove_frames", "tracebackhide"])
def test_an_error_of_a_worker_shows_the_frames_that_the_setting_of_the_parent_says(mode):
    ds = Map.range(5).to_iter_dataset().map(outer)
    ds = ds.mp_prefetch(grain.MultiprocessingOptions(num_workers=1))
    with grain.config.override(py_traceback_filtering=mode):
        error = error_of(ds)
    names = [frame.f_code.co_name for frame in frames_of(error)]
    assert names[-2:] == ["outer", "inner"]
    assert bool(of_library(frames_of(error))) == (mode in ("off", "tracebackhide"))
    remote = error.__cause__.__cause__ if mode == "remove_frames" else error.__cause__
    assert "In worker 0 of 1" in str(remote)


def test_a_second_pass_of_one_error_adds_no_second_note_or_cause():
    kept = ValueError("three")

    def fail(x):
        raise kept

    for mode in ("auto", "remove_frames"):
        with grain.config.override(py_traceback_filtering=mode):
            for _ in range(2):
                with pytest.raises(ValueError, match="three"):
                    next(iter(Map.range(1).map(fail)))
    assert len(notes_of(kept)) == 1
    assert isinstance(kept.__cause__, UnfilteredTraceback)
    assert kept.__cause__.__cause__ is None


@pytest.mark.parametrize("pipeline", ["map", "iter", "threads"])
@pytest.mark.parametrize(
    "mode", ["off", "auto", "quiet_remove_frames", "remove_frames", "tracebackhide"]
)
def test_an_error_that_is_kept_does_not_keep_its_iterator(pipeline, mode):
    kept = []

    def fail(make):
        iterator = iter(make())
        try:
            for _ in iterator:
                pass
        except ValueError as error:
            kept.append(error)
        found = weakref.ref(iterator)
        del iterator
        return found

    gc.disable()  # As in a notebook, which keeps the last error: the end of a cycle would come late.
    try:
        with grain.config.override(py_traceback_filtering=mode):
            assert fail(PIPELINES[pipeline])() is None
    finally:
        gc.enable()
    assert kept
