"""The switches of google/grain: what they log and write, as observed in 0.2.18 by running it.

There, `py_debug_mode` logs at INFO, every 60 seconds, a message that starts with "Grain Dataset Execution
Summary:" and has a table with the columns of `execution_summary`. `py_dataset_visualization_output_dir`
logs "Grain Dataset graph:" if it is empty; a folder raises NotImplementedError. `STAGE_TIMING` and
`enable_profiling` show nothing. No environment variable sets them, and `grain.config.update` has no effect
before absl flags are parsed.
"""

from __future__ import annotations

import logging
import subprocess
import sys
import urllib.request

import pytest

import grain
from grain.observe import activation
from grain.observe.exports import serve_prometheus, write_trace

Map = grain.MapDataset


def double(x):
    return 2 * x


def loader(workers=0, **options):
    sampler = grain.samplers.IndexSampler(24, grain.sharding.NoSharding(), num_epochs=1)
    return grain.DataLoader(
        data_source=list(range(24)),
        sampler=sampler,
        operations=[grain.transforms.Batch(4)],
        worker_count=workers,
        **options,
    )


def parallel(executor, workers=2, **options):
    return grain.MultiprocessingOptions(num_workers=workers, executor=executor, **options)


def batches():
    return Map.range(24).shuffle(seed=1).map(double).to_iter_dataset().batch(4)


PIPELINES = {
    "inline": batches,
    "threads": lambda: batches().mp_prefetch(parallel("threads")),
    "processes": lambda: batches().mp_prefetch(parallel("processes")),
    "loader": loader,
    "loader with workers": lambda: loader(2),
    "map dataset": lambda: Map.range(24).map(double).batch(4),
}
each_pipeline = pytest.mark.parametrize("pipeline", PIPELINES)


@pytest.fixture
def logged(caplog):
    caplog.set_level(logging.INFO, logger="grain")

    def messages(start):
        found = [record for record in caplog.records if record.getMessage().startswith(start)]
        assert all(record.levelno == logging.INFO and record.name == "grain" for record in found)
        return [record.getMessage() for record in found]

    return messages


def read(ds):
    with iter(ds) as iterator:
        return list(iterator)


@each_pipeline
def test_debug_mode_logs_the_table_at_the_end(pipeline, logged):
    with grain.config.override(py_debug_mode=True):
        assert len(read(PIPELINES[pipeline]())) == 6
    (message,) = logged("Grain Dataset Execution Summary:")
    assert "| id | name" in message
    assert "| percent wait time | total processing time | min processing time |" in message
    assert "batch" in message
    assert not logged("Grain Dataset graph:")


def test_debug_mode_logs_the_table_now_and_then(logged):
    assert grain.config.report_interval == 60.0
    with grain.config.override(py_debug_mode=True, report_interval=1e-9):
        iterator = iter(Map.range(10).to_iter_dataset(grain.ReadOptions(0, 0)).batch(1))
        for _ in range(3):
            next(iterator)
        assert logged("Grain Dataset Execution Summary:")


def test_the_switches_end_with_their_block(logged, tmp_path):
    with grain.config.override(py_debug_mode=True, py_dataset_visualization_output_dir=""):
        pass
    iterator = iter(batches())
    assert len(list(iterator)) == 6
    with pytest.raises(RuntimeError, match="is not observed"):
        iterator.stats()
    assert not logged("Grain Dataset")


@each_pipeline
def test_an_empty_folder_logs_the_graph(pipeline, logged):
    with grain.config.override(py_dataset_visualization_output_dir=""):
        assert len(read(PIPELINES[pipeline]())) == 6
    (message,) = logged("Grain Dataset graph:")
    assert "batch" in message
    assert ("DataLoader.records(" if "loader" in pipeline else "MapDataset") in message


def test_the_graph_of_an_observed_pipeline_is_logged_once(logged):
    with grain.config.override(py_dataset_visualization_output_dir="", py_debug_mode=True):
        read(batches())
        with grain.observing():
            read(batches())
    assert len(logged("Grain Dataset graph:")) == 2


def test_a_graph_that_cannot_be_shown_is_no_error(logged):
    class Shy(grain.IterDataset):
        def __iter__(self):
            return iter(Map.range(2).to_iter_dataset())

        def __repr__(self):
            raise ValueError("not me")

    with grain.config.override(py_dataset_visualization_output_dir=""):
        assert list(Shy()) == [0, 1]
    assert "not me" in logged("Grain Dataset graph:")[0]


@each_pipeline
def test_a_folder_has_a_page_of_each_pipeline(pipeline, tmp_path):
    folder = tmp_path / "pages" / "deep"
    with grain.config.override(py_dataset_visualization_output_dir=str(folder)):
        iterator = iter(PIPELINES[pipeline]())
        (page,) = folder.iterdir()
        before = page.read_text()
        assert len(list(iterator)) == 6
        assert len(read(PIPELINES[pipeline]())) == 6
    assert page.suffix == ".html"
    assert before.startswith("<!doctype html>")
    assert "batch" in before
    assert page.read_text() != before  # It has statistics now.
    assert len(list(folder.iterdir())) == 2


def test_a_folder_that_cannot_be_written_is_logged_once(tmp_path, caplog):
    file = tmp_path / "file"
    file.write_text("")
    with grain.config.override(py_dataset_visualization_output_dir=str(file), report_interval=1e-9):
        assert len(read(batches())) == 6
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert "py_dataset_visualization_output_dir" in record.getMessage()


@pytest.mark.parametrize("make", [batches, PIPELINES["threads"], PIPELINES["processes"]])
def test_stage_timing_gives_statistics(make):
    mode = grain.experimental.ExecutionTrackingMode
    options = grain.experimental.DatasetOptions(execution_tracking_mode=mode.STAGE_TIMING)
    ds = grain.experimental.WithOptionsIterDataset(make(), options)
    with iter(ds) as iterator:
        assert len(list(iterator)) == 6
        stats = iterator.stats()
    assert stats.elements == 6
    assert not stats.spans
    assert {"map", "batch", "shuffle"} <= {node.operation for node in stats.nodes}
    off = grain.experimental.DatasetOptions(execution_tracking_mode=mode.DISABLED)
    with (
        iter(grain.experimental.WithOptionsIterDataset(make(), off)) as iterator,
        pytest.raises(RuntimeError, match="is not observed"),
    ):
        iterator.stats()


@pytest.mark.parametrize("workers", [0, 2])
def test_profiling_gives_a_timeline_of_each_worker(workers, tmp_path):
    options = parallel("processes", workers, enable_profiling=True)
    for ds in (batches().mp_prefetch(options), loader(workers, enable_profiling=True)):
        with iter(ds) as iterator:
            assert len(list(iterator)) == 6
            stats = iterator.stats()
        write_trace(tmp_path / "trace.json", stats)
        tracks = {span.track.split()[0] for span in stats.spans}
        assert tracks >= ({"worker"} if workers else {"consumer"})


def test_states_are_those_of_an_unobserved_pipeline(tmp_path):
    def states(ds, start=None):
        with iter(ds) as iterator:
            if start is not None:
                iterator.set_state(start)
            found = [iterator.get_state()]
            for _ in iterator:
                found.append(iterator.get_state())
        return found

    expected = states(batches())
    settings = {"py_debug_mode": True, "py_dataset_visualization_output_dir": str(tmp_path)}
    with grain.config.override(**settings):
        assert states(batches()) == expected
        assert states(batches(), expected[3]) == expected[3:]


def test_prometheus_reads_all_pipelines_at_the_given_port(monkeypatch, logged):
    servers = []
    serve = activation._prometheus_server.serve_prometheus

    def keep(**options):
        servers.append(serve(**options))
        return servers[-1]

    monkeypatch.setattr(activation._prometheus_server, "serve_prometheus", keep)
    activation._serve.cache_clear()
    try:
        with grain.config.override(prometheus_port=0):
            iterators = [iter(batches().observe(name="mine")) for _ in range(2)]
            next(iterators[1])
        (server,) = servers
        assert server.address == "127.0.0.1"
        assert logged("Metrics for Prometheus are at http://127.0.0.1:")
        with urllib.request.urlopen(server.url, timeout=30) as answer:
            text = answer.read().decode()
        assert 'grain_elements_total{pipeline="mine (2)"} 1.0' in text
    finally:
        activation._serve.cache_clear()
        for server in servers:
            server.close()


def test_a_port_in_use_is_logged_and_the_pipeline_runs(caplog):
    activation._serve.cache_clear()
    with (
        serve_prometheus([], port=0) as other,
        grain.config.override(prometheus_port=other.port),
    ):
        assert len(read(batches())) == 6
    activation._serve.cache_clear()
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert f"port {other.port}" in record.getMessage()


SCRIPT = """
import logging, sys
logging.basicConfig(level=logging.INFO, stream=sys.stdout, format="%(name)s|%(levelname)s|%(message)s")
import grain
ds = grain.MapDataset.range(8).to_iter_dataset().batch(4)
assert len(list(ds)) == 2
loaded = sorted(name for name in sys.modules if name.startswith("grain.observe"))
print("loaded:", loaded)
"""


def output_of(**environment):
    result = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        capture_output=True,
        text=True,
        timeout=100,
        check=True,
        env={"PATH": "", **environment},
    )
    return result.stdout


def test_a_script_without_switches_loads_no_telemetry():
    assert output_of() == "loaded: []\n"


@pytest.mark.parametrize(
    ("variable", "value", "message"),
    [
        ("GRAIN_OBSERVE", "1", "'grain.observe.switch'"),
        ("GRAIN_PY_DEBUG_MODE", "1", "grain|INFO|Grain Dataset Execution Summary:"),
        ("GRAIN_PY_DATASET_VISUALIZATION_OUTPUT_DIR", "", "grain|INFO|Grain Dataset graph:"),
        (
            "GRAIN_PROMETHEUS_PORT",
            "0",
            "grain|INFO|Metrics for Prometheus are at http://127.0.0.1:",
        ),
    ],
)
def test_environment_variables_switch_a_script_on(variable, value, message):
    assert message in output_of(**{variable: value})


def test_a_switch_works_after_something_else_was_observed():
    found = subprocess.run(
        [sys.executable, "-c", AFTER_A_BLOCK],
        capture_output=True,
        text=True,
        timeout=100,
        check=True,
    )
    assert found.stdout.startswith("Grain Dataset Execution Summary:")


AFTER_A_BLOCK = """
import logging, sys
logging.basicConfig(level=logging.INFO, stream=sys.stdout, format="%(message)s")
import grain
with grain.observing():
    next(iter(grain.MapDataset.range(8)))
with grain.config.override(py_debug_mode=True):
    list(grain.MapDataset.range(8).batch(2))
"""


def test_the_variable_of_google_grain_sets_its_port():
    from grain._config import Config

    name = "ENABLE_PYGRAIN_PROMETHEUS_TELEMETRY"
    assert Config({name: "true"}).prometheus_port == 9431
    assert Config({name: "True", "GRAIN_PROMETHEUS_PORT": "77"}).prometheus_port == 77
    assert Config({name: "1"}).prometheus_port is None  # As there.
    assert Config({}).prometheus_port is None
    with pytest.raises(ValueError, match="GRAIN_PROMETHEUS_PORT: expected a port"):
        assert Config({"GRAIN_PROMETHEUS_PORT": "70000"}).prometheus_port
