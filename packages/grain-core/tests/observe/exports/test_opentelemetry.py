"""The metrics as instruments of an OpenTelemetry meter, with a meter that has its methods."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from grain.observe.exports import instrument_meter
from grain.observe.exports.metric_families import known_families
from grain.observe.statistics import PipelineStatistics

from ..sample_statistics import sample_statistics


class Observation(NamedTuple):
    value: float
    attributes: dict


class Meter:
    """Keeps the instruments, as the meters of OpenTelemetry do."""

    def __init__(self):
        self.instruments = {}

    def _create(self, kind):
        def create(name, callbacks=None, unit="", description=""):
            assert name not in self.instruments
            self.instruments[name] = (kind, callbacks, unit, description)
            return name

        return create

    @property
    def create_observable_counter(self):
        return self._create("counter")

    @property
    def create_observable_gauge(self):
        return self._create("gauge")

    def collect(self, name):
        (callback,) = self.instruments[name][1]
        return callback(None)


def instrumented(subject):
    meter = Meter()
    names = instrument_meter(meter, subject, observation=Observation)
    assert names == list(meter.instruments)
    return meter


def test_every_metric_is_an_instrument_with_a_unit():
    meter = instrumented(sample_statistics())
    for family in known_families():
        assert f"grain.{family.name.removeprefix('grain_')}" in meter.instruments
    kind, _, unit, description = meter.instruments["grain.consumer_wait_seconds.sum"]
    assert (kind, unit) == ("counter", "s")
    assert "next()" in description
    assert meter.instruments["grain.node_bytes"][2] == "By"


def test_the_callbacks_return_the_values_with_attributes():
    stats = sample_statistics()
    meter = instrumented(stats)
    assert meter.collect("grain.elements") == [Observation(160.0, {"pipeline": "train"})]
    seconds = {o.attributes["node"]: o.value for o in meter.collect("grain.node_self_seconds")}
    assert seconds == {str(node.id): node.self_seconds for node in stats.nodes}
    quantiles = {
        o.attributes["quantile"]: o.value for o in meter.collect("grain.consumer_wait_seconds")
    }
    assert quantiles == {"0.5": stats.wait.p50, "0.95": stats.wait.p95, "0.99": stats.wait.p99}
    assert meter.collect("grain.consumer_wait_seconds.count")[0].value == stats.wait.count
    assert meter.collect("grain.consumer_wait_seconds.sum")[0].value == stats.wait.total_seconds


def test_no_pipeline_gives_no_values():
    meter = instrumented([])
    assert all(meter.collect(name) == [] for name in meter.instruments)
    assert instrumented(PipelineStatistics()).collect("grain.node_elements") == []


def test_an_object_that_is_no_meter_is_refused():
    with pytest.raises(TypeError, match="needs a Meter of OpenTelemetry, got 3"):
        instrument_meter(3)


def test_the_instruments_work_with_the_sdk():
    sdk = pytest.importorskip("opentelemetry.sdk.metrics")
    export = pytest.importorskip("opentelemetry.sdk.metrics.export")
    reader = export.InMemoryMetricReader()
    provider = sdk.MeterProvider(metric_readers=[reader])
    stats = sample_statistics()
    instrument_meter(provider.get_meter("grain"), stats)
    (resource,) = reader.get_metrics_data().resource_metrics
    metrics = {metric.name: metric for metric in resource.scope_metrics[0].metrics}
    (point,) = metrics["grain.elements"].data.data_points
    assert (point.value, dict(point.attributes)) == (160.0, {"pipeline": "train"})
    assert len(metrics["grain.consumer_wait_seconds"].data.data_points) == 3
    provider.shutdown()
