"""`_stats` of classes of users: real in observed pipelines, and nothing elsewhere."""

from __future__ import annotations

import threading

import pytest

import grain
from grain.dataset.stats import NO_STATS, Stats
from grain.observe.recording import Recorders
from grain.observe.user_recorder import ObservedStats, StatsMember

Map = grain.MapDataset
SECOND = 1_000_000_000


class Doubled(grain.MapDataset):
    """A map dataset as users of google/grain write it."""

    def __init__(self, parent, offset=0):
        super().__init__(parent)
        self._offset = offset

    def __len__(self):
        return len(self._parent)

    def __getitem__(self, index):
        element = self._parent[index]
        with self._stats.record_self_time(offset_ns=self._offset):
            return self._stats.record_output_spec(2 * element)


class Ahead(grain.IterDataset):
    def __iter__(self):
        return AheadIterator(self._parent.__iter__())


class AheadIterator(grain.DatasetIterator):
    """An iterator that computes in a thread of its own."""

    def __next__(self):
        element = next(self._parent)
        found = []

        def compute():
            with self._stats.record_self_time(offset_ns=SECOND):
                found.append(element + 1)

        thread = threading.Thread(target=compute)
        thread.start()
        thread.join()
        return self._stats.record_bytes_produced(found[0])

    def get_state(self):
        return self._parent.get_state()

    def set_state(self, state):
        self._parent.set_state(state)


class OwnStats(Doubled):
    _stats = "mine"

    def __getitem__(self, index):
        return (self._parent[index], self._stats)


def node_of(stats, name):
    (found,) = [node for node in stats.nodes if name in node.name]
    return found


@pytest.mark.parametrize("workers", [0, 2])
def test_recorded_time_is_work_of_the_node(workers):
    ds = Doubled(Map.range(4), offset=SECOND).to_iter_dataset()
    ds = ds.mp_prefetch(grain.MultiprocessingOptions(num_workers=workers))
    with grain.observing(), iter(ds) as iterator:
        assert list(iterator) == [0, 2, 4, 6]
        stats = iterator.stats()
    node = node_of(stats, "Doubled")
    assert node.elements_out == 4
    # The offsets; the time of the first frame may be left out as a warm-up.
    assert node.self_seconds >= 2.0


def test_time_of_a_thread_of_the_user_is_work_of_the_node():
    with grain.observing(), iter(Ahead(Map.range(3).to_iter_dataset())) as iterator:
        assert list(iterator) == [1, 2, 3]
        stats = iterator.stats()
    assert node_of(stats, "Ahead").self_seconds >= 2.0


@pytest.mark.parametrize(
    "ds", [Doubled(Map.range(4), offset=SECOND), Ahead(Map.range(4).to_iter_dataset())]
)
def test_nothing_is_recorded_where_nothing_is_observed(ds):
    assert ds._stats is NO_STATS
    iterator = iter(ds)
    assert len(list(iterator)) == 4
    assert iterator._stats is NO_STATS


def test_an_attribute_of_the_user_stays():
    with grain.observing():
        assert list(OwnStats(Map.range(2))) == [(0, "mine"), (1, "mine")]


def test_work_that_is_measured_already_is_not_counted_twice(monkeypatch):
    now = [0]
    monkeypatch.setattr("grain.observe.recording._clock", lambda: now[0])
    recorders = Recorders("test")

    class Probe:
        node = 5

    Probe.recorders = recorders
    recorder = recorders.current()
    frame = recorder.open(5)
    now[0] += 10
    with ObservedStats(Probe).record_self_time():
        now[0] += 100
    now[0] += 1
    recorder.close(frame, 1)
    with ObservedStats(Probe).record_self_time():
        now[0] += 1000
    counters = recorders.totals()[5]
    assert counters.working == 1111
    assert counters.returned == 1


def test_an_error_in_a_recorded_block_is_raised_and_the_block_is_closed():
    recorders = Recorders("test")

    class Probe:
        node = 0

    Probe.recorders = recorders
    with pytest.raises(KeyError), ObservedStats(Probe).record_self_time():
        raise KeyError
    assert recorders.current().node is None


def test_the_member_of_a_class_is_a_recorder_that_records_nothing():
    class Node:
        _stats = StatsMember()

    assert type(Node._stats) is Stats
    assert type(Node()._stats) is Stats
