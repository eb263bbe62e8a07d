"""Metrics that programs define: in one process, pickled, and in worker processes."""

from __future__ import annotations

import copy
import pickle

import pytest

import grain
from grain import monitoring
from grain.monitoring import Bucketer, Counter, EventMetric, Metadata, Metric

SEEN = Counter("/test_monitoring/seen", Metadata("Seen."), fields=[("parity", str)])
SIZES = EventMetric("/test_monitoring/sizes", bucketer=Bucketer.PowersOf(10))
LAST = Metric("/test_monitoring/last", int)


def count(x):
    SEEN.Increment("odd" if x % 2 else "even")
    SIZES.Record(x)
    LAST.Set(x)
    return x


@pytest.fixture(autouse=True)
def _no_values():
    for metric in (SEEN, SIZES, LAST):
        metric.ClearAll()


@pytest.mark.parametrize("metric", [SEEN, SIZES, LAST])
def test_a_pickled_metric_is_the_same_metric(metric):
    assert pickle.loads(pickle.dumps(metric)) is metric
    assert copy.deepcopy(metric) is metric


def test_a_metric_that_a_process_lacks_is_made_again():
    made = EventMetric("/test_monitoring/made", Metadata("Made."), bucketer=Bucketer.PowersOf(4))
    made.Record(3)
    payload = pickle.dumps(made)
    del made
    found = pickle.loads(payload)
    assert found.Get() is None
    assert (found.name, found.metadata.description) == ("/test_monitoring/made", "Made.")
    found.Record(3)
    assert found.Get().bounds[:3] == (1.0, 4.0, 16.0)


def test_growth_is_what_was_added_since_the_last_time():
    count(3)
    taken = dict(monitoring.take_growth())
    assert taken[SEEN] == {("odd",): 1}
    assert taken[LAST] == {(): 3}
    assert not [metric for metric, _ in monitoring.take_growth() if metric in taken]
    count(5)
    count(20)
    taken = dict(monitoring.take_growth())
    assert taken[SEEN] == {("odd",): 1, ("even",): 1}
    assert (taken[SIZES][()].count, taken[SIZES][()].total) == (2, 25)
    monitoring.add_growth(taken.items())
    assert SEEN.Get("odd") == 3
    assert SIZES.Get().count == 5
    assert SIZES.Get().counts[:3] == (0, 3, 2)


@pytest.mark.parametrize("executor", ["inline", "threads", "processes"])
def test_what_workers_count_is_counted_here_while_the_pipeline_is_observed(executor):
    options = grain.MultiprocessingOptions(num_workers=2, executor=executor)
    ds = grain.MapDataset.range(40).map(count).to_iter_dataset().mp_prefetch(options)
    with grain.observing(), iter(ds) as iterator:
        assert list(iterator) == list(range(40))
    assert (SEEN.Get("odd"), SEEN.Get("even")) == (20, 20)
    assert (SIZES.Get().count, SIZES.Get().total) == (40, sum(range(40)))
    assert LAST.Get() in range(40)


def test_metrics_in_a_function_do_not_keep_workers_from_computing_it():
    ds = grain.MapDataset.range(10).map(count).to_iter_dataset()
    with iter(ds.mp_prefetch(num_workers=1)) as iterator:
        assert list(iterator) == list(range(10))
