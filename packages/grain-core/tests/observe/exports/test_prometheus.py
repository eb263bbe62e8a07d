"""Metrics in the format of Prometheus: text, endpoint, and the registry of `prometheus_client`."""

from __future__ import annotations

import dataclasses
import http.client
import importlib
import math
import pkgutil
import socket
import threading
import urllib.request

import pytest

import grain
from grain.observe.exports import PrometheusCollector, serve_prometheus
from grain.observe.exports.metric_families import known_families, metric_families
from grain.observe.exports.prometheus_text import prometheus_text
from grain.observe.statistics import NodeStatistics, PipelineStatistics, WaitStatistics

from ..sample_statistics import sample_statistics

client_parser = pytest.importorskip("prometheus_client.parser")

HOSTILE = 'a"b\\c\nd\re{}#,=\x1b[31m\u202e</script>'


def parsed(text):
    """Return the values by sample name and labels; the parser accepts no wrong format."""
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in client_parser.text_string_to_metric_families(text)
        for sample in family.samples
    }


def value(found, name, **labels):
    matching = [
        number
        for (sample, own), number in found.items()
        if sample == name and set(labels.items()) <= own
    ]
    assert len(matching) == 1, (name, labels, matching)
    return matching[0]


def test_the_text_has_the_figures_of_the_pipeline_its_nodes_and_its_workers():
    stats = sample_statistics()
    found = parsed(prometheus_text(metric_families([stats])))
    assert value(found, "grain_elements_total", pipeline="train") == stats.elements
    assert value(found, "grain_wait_share") == pytest.approx(stats.wait_share)
    assert value(found, "grain_consumer_wait_seconds", quantile="0.95") == stats.wait.p95
    assert value(found, "grain_consumer_wait_seconds_count") == stats.wait.count
    decode = stats.nodes[2]
    assert value(found, "grain_node_self_seconds_total", node="2") == decode.self_seconds
    assert value(found, "grain_node_dropped_elements_total", node="4") == stats.nodes[4].dropped
    assert value(found, "grain_worker_restarts_total", worker="worker 1") == 1
    assert value(found, "grain_bottleneck", kind="transform", node="map(decode)") == 1
    assert value(found, "grain_node_queue_capacity", node="5") == 8


def test_the_metrics_of_google_grain_have_its_names_and_units():
    stats = sample_statistics()
    found = parsed(prometheus_text(metric_families([stats])))
    nanoseconds = (stats.wait.total_seconds + stats.wait.warm_up_seconds) * 1e9
    assert value(found, "grain_python_dataset_next_duration_ns_sum") == pytest.approx(nanoseconds)
    assert value(found, "grain_python_dataset_next_duration_ns_count") == 160
    source = stats.nodes[0]
    assert value(found, "grain_python_data_sources_bytes_read_total") == source.bytes_out
    name = "grain_python_dataset_source_read_time_ns"
    assert value(found, f"{name}_count", source=source.name) == source.elements_out
    assert value(found, f"{name}_sum") == pytest.approx(source.self_seconds * 1e9)
    ready = "grain_python_dataset_prefetch_buffer_ready_count"
    assert value(found, f"{ready}_sum") == pytest.approx(0.6 * 160)
    assert value(found, f"{ready}_bucket", le="+Inf") == value(found, f"{ready}_count") == 160


def test_the_histogram_of_waits_has_the_limits_of_google_grain():
    waits = WaitStatistics(count=4, total_seconds=1e-8, histogram=(0, 1, 0, 2, 0, 1))
    text = prometheus_text(metric_families([PipelineStatistics(wait=waits)]))
    found = parsed(text)
    name = "grain_python_dataset_next_duration_ns"
    cumulative = {"1.0": 0, "2.0": 1, "4.0": 1, "8.0": 3, "16.0": 3, "+Inf": 4}
    for limit, count in cumulative.items():
        assert value(found, f"{name}_bucket", le=limit) == count
    assert value(found, f"{name}_count") == 4


def test_an_observed_pipeline_counts_all_of_its_waits():
    with grain.observing():
        iterator = iter(grain.MapDataset.range(1000).map(str))
    assert len(list(iterator)) == 1000
    stats = iterator.stats()
    assert sum(stats.wait.histogram) == 1000
    assert PipelineStatistics.from_json(stats.to_json()) == stats


def test_scrapes_while_elements_are_read_see_numbers_that_grow():
    ds = grain.MapDataset.range(10**6).map(str).to_iter_dataset().batch(2).repeat()
    with grain.observing(), iter(ds) as iterator, serve_prometheus(iterator, port=0) as server:
        counts = []
        finished = threading.Event()

        def scrape():
            try:
                for _ in range(10):
                    with urllib.request.urlopen(server.url, timeout=30) as answer:
                        counts.append(value(parsed(answer.read().decode()), "grain_elements_total"))
            finally:
                finished.set()

        thread = threading.Thread(target=scrape)
        thread.start()
        while not finished.is_set():
            next(iterator)
        thread.join()
    assert len(counts) == 10
    assert counts == sorted(counts)


def test_names_and_labels_of_others_are_escaped():
    nodes = (NodeStatistics(id=0, operation=HOSTILE, name=HOSTILE, location=HOSTILE),)
    stats = PipelineStatistics(nodes=nodes, name=HOSTILE, elements=1)
    text = prometheus_text(metric_families([stats]))
    assert "\r" not in text
    found = parsed(text)
    assert value(found, "grain_elements_total", pipeline=HOSTILE.replace("\r", " ")) == 1


def test_pipelines_and_sources_with_one_name_have_different_labels():
    twins = (
        NodeStatistics(id=0, operation="source", name="source(list)", elements_out=1),
        NodeStatistics(id=1, operation="source", name="source(list)", elements_out=2),
        NodeStatistics(id=2, operation="mix", name="mix", parents=(0, 1)),
    )
    stats = PipelineStatistics(nodes=twins)
    text = prometheus_text(metric_families([stats, stats]))
    samples = [line.rpartition(" ")[0] for line in text.splitlines() if not line.startswith("#")]
    assert len(samples) == len(set(samples))
    assert 'pipeline="pipeline (2)"' in text


def test_an_empty_pipeline_and_no_pipeline_are_valid():
    assert parsed(prometheus_text(metric_families([PipelineStatistics()])))
    assert prometheus_text(metric_families([])).count("grain_") == 0


def test_numbers_that_are_not_finite_are_written_as_prometheus_reads_them():
    stats = PipelineStatistics(setup_seconds=math.inf, consumer_busy_seconds=math.nan)
    found = parsed(prometheus_text(metric_families([stats])))
    assert value(found, "grain_setup_seconds") == math.inf
    assert math.isnan(value(found, "grain_consumer_busy_seconds_total"))


def test_metrics_of_the_program_are_exported():
    monitoring = grain.monitoring
    about = monitoring.Metadata(description='Files "read".\nAll of them.')
    counter = monitoring.Counter("/test/files read", about, fields=[("le", str), ("b:c", int)])
    counter.IncrementBy(3, "x", 1)
    counter.Increment("y", 2)
    events = monitoring.EventMetric("/test/sizes", bucketer=monitoring.Bucketer.PowersOf(10))
    for size in (0.5, 5, 50, 1e15):
        events.Record(size)
    gauge = monitoring.Metric("/test/text", str)
    gauge.Set("no number")
    found = parsed(prometheus_text(metric_families([])))
    assert value(found, "test_files_read_total", le_="x", b_c="1") == 3
    assert value(found, "test_sizes_bucket", le="1.0") == 1
    assert value(found, "test_sizes_bucket", le="10.0") == 2
    assert value(found, "test_sizes_bucket", le="+Inf") == 4
    assert value(found, "test_sizes_sum") == pytest.approx(1e15 + 55.5)
    assert not [name for name, _ in found if name == "test_text"]
    del counter, events, gauge
    assert "test_files_read" not in prometheus_text(metric_families([]))


def test_every_known_family_has_a_description():
    families = known_families()
    assert len({family.name for family in families}) == len(families) > 20
    assert all(family.description.endswith(".") for family in families)


def test_the_endpoint_is_scraped_while_the_statistics_change():
    class Iterator:
        elements = 1

        def stats(self):
            return sample_statistics(elements=self.elements)

    iterator = Iterator()
    with serve_prometheus(iterator, port=0) as server:
        assert server.url == f"http://127.0.0.1:{server.port}/metrics"
        for iterator.elements in (1, 7):
            with urllib.request.urlopen(server.url, timeout=30) as answer:
                assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
                found = parsed(answer.read().decode())
            assert value(found, "grain_elements_total") == iterator.elements
    with (
        pytest.raises(ConnectionRefusedError),
        socket.create_connection(("127.0.0.1", server.port)),
    ):
        pass
    server.close()  # A second time.


def answer_to(server, path, host):
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
    connection.request("GET", path, headers={"Host": host})
    status = connection.getresponse().status
    connection.close()
    return status


def test_the_endpoint_answers_no_page_that_rebinds_its_name():
    with serve_prometheus(sample_statistics(), port=0) as server:
        for host in ("localhost", f"127.0.0.1:{server.port}", "[::1]", f"LOCALHOST:{server.port}"):
            assert answer_to(server, "/metrics", host) == 200
        for host in ("example.com", "example.com:80", "127.0.0.1.example.com", ""):
            assert answer_to(server, "/metrics", host) == 403
        assert answer_to(server, "/metrics?x=1", "localhost") == 200
        assert answer_to(server, "/", "localhost") == 404


def test_an_error_while_collecting_is_an_answer():
    class Failing:
        def stats(self):
            raise ValueError("not now")

    with serve_prometheus(Failing(), port=0) as server:
        assert answer_to(server, "/metrics", "localhost") == 500


def test_a_port_in_use_is_an_error_that_says_so():
    with (
        serve_prometheus(sample_statistics(), port=0) as server,
        pytest.raises(OSError) as caught,  # noqa: PT011 - its text depends on the system
    ):
        serve_prometheus(sample_statistics(), port=server.port)
    assert f"port {server.port}" in caught.value.__notes__[0]


def test_names_of_the_package_are_functions_whichever_module_was_loaded_first():
    exports = importlib.import_module("grain.observe.exports")
    for module in pkgutil.iter_modules(exports.__path__):
        importlib.import_module(f"grain.observe.exports.{module.name}")
    assert all(callable(getattr(exports, name)) for name in exports.__all__)


@pytest.mark.parametrize("subject", [3, "train", object()])
def test_a_subject_without_statistics_is_refused(subject):
    with pytest.raises(TypeError, match="Expected an observed iterator"):
        serve_prometheus(subject, port=0)


def test_a_registry_of_prometheus_client_has_the_same_values():
    prometheus_client = pytest.importorskip("prometheus_client")
    stats = [sample_statistics(), sample_statistics(name="eval")]
    registry = prometheus_client.CollectorRegistry()
    registry.register(PrometheusCollector(stats))
    exposed = parsed(prometheus_client.generate_latest(registry).decode())
    assert exposed == parsed(prometheus_text(metric_families(stats)))


def test_statistics_with_every_field_given_are_exported_completely():
    stats = sample_statistics()
    full = dataclasses.replace(stats, workers=stats.workers * 2)
    text = prometheus_text(metric_families([full]))
    assert all(family.name in text for family in known_families())
