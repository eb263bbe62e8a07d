"""The progress line: what it says, where it is shown, and that it changes nothing."""

from __future__ import annotations

import io
import sys
import types

import pytest

import grain
from grain.observe.progress_line import (
    LogDisplay,
    NotebookDisplay,
    ProgressIterator,
    TerminalDisplay,
    display_for,
    progress,
)

Map = grain.MapDataset


class Clock:
    """Time that passes only when a test says so."""

    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


class Lines:
    def __init__(self, interval=0.0):
        self.interval = interval
        self.shown = []

    def show(self, line, *, last):
        self.shown.append((line, last))


class Slow:
    """An iterator whose elements take time to arrive."""

    def __init__(self, clock, count, seconds):
        self._clock, self._left, self._seconds = clock, count, seconds

    def __iter__(self):
        return self

    def __next__(self):
        if not self._left:
            raise StopIteration
        self._left -= 1
        self._clock.now += self._seconds
        return self._left


def test_the_line_has_throughput_share_of_waiting_and_time_left():
    clock, display = Clock(), Lines()
    shown = ProgressIterator(
        Slow(clock, 40, 0.25), total=40, description="train", display=display, clock=clock
    )
    for _ in range(21):
        next(shown)
        clock.now += 0.75  # The consumer's work.
    assert shown.line() == ("train: 21 of 40 (52%) | 0.964 per second | waiting 24% | 0:19 left")


def test_the_time_until_the_first_element_does_not_count_as_throughput():
    clock, display = Clock(), Lines()
    shown = ProgressIterator(Slow(clock, 3, 50.0), display=display, clock=clock)
    next(shown)
    assert shown.line() == "1 elements"
    clock.now += 1
    assert shown.line() == "1 elements"


def test_the_end_shows_how_long_it_took():
    clock, display = Clock(), Lines(interval=1000)
    shown = ProgressIterator(Slow(clock, 4, 1.0), total=4, display=display, clock=clock)
    assert len(list(shown)) == 4
    assert display.shown == [("4 of 4 (100%) | 1 per second | waiting 100% | took 0:04", True)]
    with pytest.raises(StopIteration):
        next(shown)
    assert len(display.shown) == 1


def test_updates_come_as_often_as_the_display_wants():
    clock, display = Clock(), Lines(interval=3.0)
    shown = ProgressIterator(Slow(clock, 10, 1.0), display=display, clock=clock)
    list(shown)
    assert [last for _, last in display.shown] == [False, False, False, True]


@pytest.mark.parametrize(
    "make", [lambda ds: ds, lambda ds: ds.to_iter_dataset(), lambda ds: ds.batch(1)]
)
def test_datasets_have_totals(make):
    display = Lines()
    assert len(list(ProgressIterator(make(Map.range(7)), display=display))) == 7
    assert display.shown[-1][0].startswith("7 of 7 (100%)")


def test_a_loader_has_a_total():
    sampler = grain.samplers.IndexSampler(5, grain.sharding.NoSharding(), num_epochs=2)
    loader = grain.DataLoader(data_source=list(range(5)), sampler=sampler)
    display = Lines()
    assert len(list(ProgressIterator(loader, display=display))) == 10
    assert display.shown[-1][0].startswith("10 of 10 (100%)")


@pytest.mark.parametrize(
    "elements",
    [Map.range(5).repeat(), Map.range(5).to_iter_dataset().filter(bool), iter([1, 2, 3])],
)
def test_an_unknown_or_unlimited_length_is_left_out(elements):
    display = Lines()
    shown = ProgressIterator(elements, display=display)
    for _ in range(2):
        next(shown)
    assert "2 elements" in shown.line() or "2 of 3" in shown.line()
    shown.close()


def test_no_elements_are_no_error():
    display = Lines()
    assert list(ProgressIterator(Map.source([]), display=display)) == []
    assert display.shown[0][0].startswith("0 elements")


def test_each_pass_over_a_dataset_is_an_epoch():
    display = Lines(interval=1000)
    shown = ProgressIterator(Map.range(3), display=display)
    assert [list(shown), list(shown)] == [[0, 1, 2]] * 2
    assert display.shown[0][0].startswith("3 of 3")
    assert display.shown[1][0].startswith("epoch 2 | 3 of 3")


def test_the_number_of_the_first_epoch_can_be_given():
    lines = []
    for epoch, ds in enumerate(Map.range(4).shuffle(seed=1).epochs(2), start=1):
        display = Lines(interval=1000)
        assert len(list(ProgressIterator(ds, epoch=epoch, display=display))) == 4
        lines.append(display.shown[0][0].split(" | ")[:2])
    assert lines == [["epoch 1", "4 of 4 (100%)"], ["epoch 2", "4 of 4 (100%)"]]


def test_a_repeated_dataset_counts_epochs_by_their_length():
    shown = ProgressIterator(Map.range(3).repeat(), epoch_length=3, display=Lines())
    epochs = []
    for _ in range(7):
        next(shown)
        epochs.append(shown.line().split(" | ")[0])
    assert epochs == ["epoch 1"] * 3 + ["epoch 2"] * 3 + ["epoch 3"]
    shown.close()


@pytest.mark.parametrize("workers", [0, 2])
def test_states_pass_through_and_a_resumed_loop_counts_from_its_position(workers):
    options = grain.MultiprocessingOptions(num_workers=workers)
    ds = Map.range(10).map(lambda x: x + 1).to_iter_dataset().mp_prefetch(options)
    first = ProgressIterator(iter(ds), display=Lines())
    assert [next(first) for _ in range(4)] == [1, 2, 3, 4]
    state = first.get_state()
    first.close()
    iterator = iter(ds)
    iterator.set_state(state)
    display = Lines()
    with iterator:
        assert list(ProgressIterator(iterator, total=len(ds), display=display)) == [
            5,
            6,
            7,
            8,
            9,
            10,
        ]
    assert display.shown[-1][0].startswith("10 of 10 (100%)")
    display = Lines()
    resumed = ProgressIterator(ds, display=display)
    resumed.set_state(state)
    assert list(resumed) == [5, 6, 7, 8, 9, 10]
    assert display.shown[-1][0].startswith("10 of 10 (100%)")


def test_an_error_leaves_the_last_line():
    def fail(x):
        raise ValueError("no")

    display = Lines()
    with pytest.raises(ValueError, match="no"):
        list(ProgressIterator(Map.range(3).map(fail), display=display))
    assert display.shown[-1][1]


def test_a_terminal_line_is_rewritten_and_cut_to_the_width(monkeypatch):
    monkeypatch.setenv("COLUMNS", "20")
    file = io.StringIO()
    display = TerminalDisplay(file)
    display.show("x" * 50, last=False)
    display.show("done", last=True)
    assert file.getvalue() == "\r" + "x" * 16 + "...\x1b[K\rdone\x1b[K\n"


def test_descriptions_cannot_control_a_terminal_or_a_page():
    hostile = "\x1b]0;title\x07<script>\n"
    file = io.StringIO()
    assert list(progress(Map.range(1), description=hostile, file=file)) == [0]
    (line,) = file.getvalue().splitlines()
    assert line.isprintable()
    shown = []
    notebook = NotebookDisplay(lambda content, **_: shown.append(content))
    ProgressIterator(iter([1]), description=hostile, display=notebook).close()
    assert "<script>" not in shown[0]["text/html"]
    assert "&lt;script&gt;" in shown[0]["text/html"]


def test_a_file_gets_lines(tmp_path):
    with open(tmp_path / "log", "w") as file:
        assert list(progress(Map.range(3), description="train", file=file, interval=0)) == [0, 1, 2]
    lines = (tmp_path / "log").read_text().splitlines()
    assert len(lines) == 4
    assert all(line.startswith("train: ") for line in lines)


def test_the_display_suits_the_output(monkeypatch):
    terminal = types.SimpleNamespace(isatty=lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    assert isinstance(display_for(terminal), TerminalDisplay)
    monkeypatch.setenv("TERM", "dumb")
    assert isinstance(display_for(terminal), LogDisplay)
    assert isinstance(display_for(io.StringIO()), LogDisplay)
    updates = []
    handle = types.SimpleNamespace(
        update=lambda content, **_: updates.append(content["text/plain"])
    )
    shell = types.SimpleNamespace(kernel=object())
    ipython = types.SimpleNamespace(
        get_ipython=lambda: shell, display=types.SimpleNamespace(display=lambda *_, **__: handle)
    )
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    shown = display_for()
    assert isinstance(shown, NotebookDisplay)
    shown.show("one", last=False)
    shown.show("two", last=True)
    assert updates == ["two"]
    del shell.kernel  # IPython in a terminal.
    assert not isinstance(display_for(), NotebookDisplay)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"elements": 3}, "needs a dataset, a DataLoader or an iterator, got 3"),
        ({"total": "7"}, "total must be an integer, got '7'"),
        ({"epoch_length": 0}, "epoch_length must be positive, got 0"),
        ({"interval": -1}, "interval must be a number of seconds, got -1"),
    ],
)
def test_arguments_that_make_no_sense_are_refused(arguments, message):
    with pytest.raises((TypeError, ValueError), match=message):
        progress(**{"elements": Map.range(3), **arguments})


@pytest.mark.parametrize("make", [lambda: Map.range(7), lambda: Map.range(7).to_iter_dataset()])
def test_tqdm_and_rich_show_the_total(make):
    tqdm = pytest.importorskip("tqdm")
    with tqdm.tqdm(make(), file=io.StringIO()) as bar:
        assert bar.total == 7
        assert len(list(bar)) == 7
    rich = pytest.importorskip("rich.progress")
    bar = rich.Progress(disable=True)
    assert len(list(bar.track(make()))) == 7
    assert bar.tasks[0].total == 7
