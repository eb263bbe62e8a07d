"""Metrics of observed pipelines as observable instruments of an OpenTelemetry meter.

The meter is passed in, so the library depends on no version of OpenTelemetry: only its methods
`create_observable_counter` and `create_observable_gauge` are called, and the callbacks return objects of the
class `observation`.
"""

from __future__ import annotations

import importlib
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any

from grain.observe.exports.metric_families import (
    COUNTER,
    HISTOGRAM,
    SUMMARY,
    MetricFamily,
    known_families,
    metric_families,
)
from grain.observe.exports.subjects import collector
from grain.observe.statistics import PipelineStatistics

# The callbacks of one collection share one reading of the statistics.
_FRESH_SECONDS = 0.5


def instrument_meter(meter: Any, subject: Any = None, *, observation: Any = None) -> list[Any]:
    """Create the instruments of a meter that report the metrics of observed pipelines.

    Args:
        meter: A `Meter` of OpenTelemetry.
        subject: An observed iterator, or an observation; None for all observed pipelines of the process.
        observation: The class of values that callbacks return, called as `observation(value, attributes)`;
            None for `opentelemetry.metrics.Observation`.

    Returns:
        The instruments.
    """
    for name in ("create_observable_counter", "create_observable_gauge"):
        if not hasattr(meter, name):
            raise TypeError(
                f"instrument_meter needs a Meter of OpenTelemetry, got {meter!r} of type "
                f"{type(meter).__name__}, which has no {name}."
            )
    if observation is None:
        try:
            observation = importlib.import_module("opentelemetry.metrics").Observation
        except ImportError as error:
            raise ImportError(
                "instrument_meter needs opentelemetry-api for its class Observation: python -m pip "
                "install opentelemetry-api, or pass a class of your own as `observation`."
            ) from error
    reading = _Reading(collector(subject))
    instruments = []
    # Instruments exist before pipelines do.
    for family in known_families():
        for name, kind in _parts(family):
            create = (
                meter.create_observable_counter
                if kind == COUNTER
                else meter.create_observable_gauge
            )
            callback = _callback(reading, name, observation)
            unit = _unit(name)
            instruments.append(create(name, [callback], unit=unit, description=family.description))
    return instruments


def _unit(name: str) -> str:
    base = name.removesuffix(".sum")
    return "s" if base.endswith("_seconds") else "By" if base.endswith("bytes") else "1"


def _parts(family: MetricFamily) -> list[tuple[str, str]]:
    name = f"grain.{family.name.removeprefix('grain_')}"
    if family.kind in (SUMMARY, HISTOGRAM):
        return [(name, "quantiles"), (f"{name}.sum", COUNTER), (f"{name}.count", COUNTER)]
    return [(name, family.kind)]


class _Reading:
    """The latest metric families, read again once they are older than one collection."""

    def __init__(self, collect: Callable[[], Iterable[PipelineStatistics]]):
        self._collect = collect
        self._lock = threading.Lock()
        self._families: dict[str, MetricFamily] = {}
        self._read_at: float | None = None

    def family(self, name: str) -> MetricFamily | None:
        """Return the family with a name, if there are samples of it."""
        with self._lock:
            now = time.monotonic()
            if self._read_at is None or now - self._read_at > _FRESH_SECONDS:
                families = metric_families(self._collect())
                self._families = {family.name: family for family in families}
                self._read_at = now
            return self._families.get(name)


def _callback(reading: _Reading, name: str, observation: Any) -> Callable[[Any], list[Any]]:
    base, _, part = name.removeprefix("grain.").partition(".")

    def observe(options: Any) -> list[Any]:
        del options
        family = reading.family(f"grain_{base}")
        found = []
        for sample in family.samples if family else ():
            attributes = dict(sample.labels)
            if part == "count":
                found.append(observation(float(sample.events), attributes))
            elif part == "sum" or not sample.parts:
                found.append(observation(sample.value, attributes))
            else:
                found += [
                    observation(value, attributes | {"quantile": str(quantile)})
                    for quantile, value in sample.parts
                ]
        return found

    return observe
