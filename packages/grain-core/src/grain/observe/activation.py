"""The entry points of telemetry, and the settings that observe all pipelines of a process.

Datasets reach this module through a hook when something is to be observed; until then it is not loaded. The
settings are those of google/grain (`py_debug_mode`, `py_dataset_visualization_output_dir`) and the port for
Prometheus. Reports are made in `next()`, so no thread is needed, and a report that fails is logged: it never
ends a training run.
"""

from __future__ import annotations

import functools
import itertools
import os
import re
from typing import Any

from grain._config import config
from grain._lazy import LazyModule
from grain.observe import switch
from grain.observe.pipeline_recorder import PipelineRecorder
from grain.observe.statistics import PipelineStatistics
from grain.observe.switch import statistics as statistics
from grain.options import ObservationOptions

# Imported when a setting needs them.
_execution_summary: Any = LazyModule("grain.observe.exports.summary_table")
_logging: Any = LazyModule("logging")
_presentation: Any = LazyModule("grain.observe.page.presentation")
_prometheus_server: Any = LazyModule("grain.observe.exports.prometheus_server")

_NOT_IN_FILE_NAMES = re.compile(r"[^A-Za-z0-9_.-]+")


def enable() -> None:
    """Observe the iterators of datasets that request it, and of all datasets if a setting says so."""
    _install()
    switch.enable()


@functools.cache
def _install() -> None:
    """Take part in the creation of iterators; called once."""
    switch.add_request(_requested_by_settings)
    switch.on_start(_start_reports)


def _requested_by_settings(dataset: Any) -> ObservationOptions | None:
    """Return options if a setting observes all datasets."""
    del dataset
    pages = config.py_dataset_visualization_output_dir is not None
    if config.py_debug_mode or pages:
        # The table has the times of single calls, and the page a timeline.
        return ObservationOptions(trace=True)
    return ObservationOptions() if config.prometheus_port is not None else None


def _log_graph(dataset: Any) -> None:
    try:
        text = repr(dataset)
    except Exception as error:  # A repr of the user.
        text = f"(It could not be shown: {error!r})"
    # Its first line is kept from google/grain 0.2.18.
    _logging.getLogger("grain").info("Grain Dataset graph:\n\n%s", text)


def _start_reports(recorder: PipelineRecorder) -> None:
    """Start the reports of a pipeline that the settings request."""
    seconds = config.report_interval
    if config.py_debug_mode:
        recorder.add_listener(_log_summary, seconds=seconds, at_end=True)
    folder = config.py_dataset_visualization_output_dir
    if folder == "":
        _log_graph(recorder.dataset)
    elif folder:
        page = _PageFile(recorder.dataset, folder, recorder.name)
        page.write(None)
        recorder.add_listener(page.write, seconds=seconds, at_end=True)
    if (port := config.prometheus_port) is not None:
        _serve(config.prometheus_address, port)


def _log_summary(stats: PipelineStatistics) -> None:
    _logging.getLogger("grain").info("%s", _execution_summary.summary_message(stats))


class _PageFile:
    """The page of one pipeline in the folder of a setting; it is replaced at each report."""

    _numbers = itertools.count(1)

    def __init__(self, dataset: Any, folder: Any, name: str):
        self._dataset = dataset
        stem = _NOT_IN_FILE_NAMES.sub("_", name)[:100] or "pipeline"
        # Several processes may write into one folder.
        self._file = f"{stem}-{os.getpid()}-{next(self._numbers)}.html"
        self._folder = os.fspath(folder)
        self._failed = False

    def write(self, stats: PipelineStatistics | None) -> None:
        """Write the page; a failure is logged once."""
        if self._failed:
            return
        try:
            os.makedirs(self._folder, exist_ok=True)
            _presentation.visualize(
                self._dataset,
                os.path.join(self._folder, self._file),
                samples=0,
                measure=False,
                statistics=stats,
            )
        except Exception as error:
            self._failed = True
            _logging.getLogger("grain").warning(
                "Could not write the page of a pipeline into %r, the folder of "
                "py_dataset_visualization_output_dir: %r. The pipeline runs without it.",
                self._folder,
                error,
            )


@functools.cache
def _serve(address: str, port: int) -> Any:
    """Serve metrics until the process ends; a port in use is logged, and the pipeline runs without."""
    try:
        server = _prometheus_server.serve_prometheus(address=address, port=port)
    except OSError as error:
        _logging.getLogger("grain").warning(
            "Could not serve metrics on %s port %d: %s. Set prometheus_port to another one; 0 lets the "
            "system choose.",
            address,
            port,
            error,
        )
        return None
    _logging.getLogger("grain").info("Metrics for Prometheus are at %s.", server.url)
    return server
