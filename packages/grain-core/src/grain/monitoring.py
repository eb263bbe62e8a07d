"""Metrics that programs define for themselves.

Their values are kept in this process, in bounded memory, and are exported with the metrics of observed
pipelines (`grain.observe.exports`). A metric that a function uses in worker processes is the same metric
there, and while the pipeline is observed, what the workers add is added here. The classes have the names and
arguments of google/grain's.
"""

from __future__ import annotations

import bisect
import dataclasses
import enum
import threading
import weakref
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

__all__ = [
    "Bucketer",
    "Counter",
    "EventDistribution",
    "EventMetric",
    "Metadata",
    "Metric",
    "Units",
    "get_monitoring_root",
]

# The limits of a histogram without a bucketer, and the largest power of one that has a base.
_DEFAULT_BOUNDS = tuple(float(2**power) for power in range(42))
_GREATEST_BOUND = 2.0**41


class Units(enum.Enum):
    """Units of metrics."""

    SECONDS = 1
    MILLISECONDS = 2
    MICROSECONDS = 3
    NANOSECONDS = 4
    BITS = 5
    BYTES = 6


class Metadata:
    """The description of a metric, and any further attributes."""

    def __init__(self, description: str = "", **kwargs: Any):
        self.description = description
        self.kwargs = kwargs


class Bucketer:
    """The limits between the buckets of an `EventMetric`."""

    def __init__(self, *args: Any, bucketer_type: Any = None, **kwargs: Any):
        self.args = args
        self.bucketer_type = bucketer_type
        self.kwargs = kwargs

    @classmethod
    def PowersOf(cls, base: float) -> Bucketer:  # noqa: N802 - the name programs use
        """Return limits at the powers of a number."""
        return cls(base, bucketer_type="powers_of")

    @property
    def bounds(self) -> tuple[float, ...]:
        """The upper limits of the buckets, without the last one, which has none.

        >>> Bucketer.PowersOf(1000).bounds
        (1.0, 1000.0, 1000000.0, 1000000000.0, 1000000000000.0)
        """
        if self.bucketer_type != "powers_of" or not float(self.args[0]) > 1:
            return _DEFAULT_BOUNDS
        base, bound = float(self.args[0]), 1.0
        found: list[float] = []
        while bound <= _GREATEST_BOUND and len(found) < 100:
            found.append(bound)
            bound *= base
        return tuple(found)


@dataclasses.dataclass(frozen=True)
class EventDistribution:
    """The values that an `EventMetric` has recorded.

    Attributes:
        count: The number of values.
        total: Their sum.
        least: The least value.
        greatest: The greatest value.
        bounds: The upper limits of the buckets; the last bucket has none.
        counts: The number of values in each bucket, one more than there are limits.
    """

    count: int
    total: float
    least: float
    greatest: float
    bounds: tuple[float, ...] = dataclasses.field(repr=False)
    counts: tuple[int, ...] = dataclasses.field(repr=False)

    @property
    def mean(self) -> float:
        """The mean of the values."""
        return self.total / self.count

    def with_value(self, value: float) -> EventDistribution:
        """Return the distribution with one more value."""
        bucket = bisect.bisect_left(self.bounds, value)
        counts = [*self.counts]
        counts[bucket] += 1
        return EventDistribution(
            self.count + 1,
            self.total + value,
            min(self.least, value),
            max(self.greatest, value),
            self.bounds,
            tuple(counts),
        )

    def plus(self, other: EventDistribution) -> EventDistribution:
        """Return the distribution of the values of both, which have the same limits."""
        return EventDistribution(
            self.count + other.count,
            self.total + other.total,
            min(self.least, other.least),
            max(self.greatest, other.greatest),
            self.bounds,
            tuple(map(int.__add__, self.counts, other.counts)),
        )

    def since(self, before: EventDistribution) -> EventDistribution:
        """Return the distribution of the values that were recorded after `before`."""
        return EventDistribution(
            self.count - before.count,
            self.total - before.total,
            self.least,
            self.greatest,
            self.bounds,
            tuple(map(int.__sub__, self.counts, before.counts)),
        )


class _Values:
    """Values by the fields of a metric."""

    def __init__(self, name: str, metadata: Metadata | None, fields: Iterable[Any] | None):
        self.name = name
        self.metadata = metadata
        self.fields = tuple(
            field if isinstance(field, str) else str(field[0]) for field in fields or ()
        )
        self._values: dict[tuple[Any, ...], Any] = {}
        # The values that `take_growth` has returned so far.
        self._taken: dict[tuple[Any, ...], Any] = {}
        self._lock = threading.Lock()
        _metrics[name] = self

    def __reduce__(self) -> Any:
        # The metric with this name in the process that unpickles it: values stay where they are.
        return _metric_named, (type(self), self.name, self._arguments())

    def _arguments(self) -> dict[str, Any]:
        return {"metadata": self.metadata, "fields": self.fields}

    def _key(self, fields: tuple[Any, ...], named: Mapping[str, Any]) -> tuple[Any, ...]:
        """Return the values of the fields in order; names that are not fields come last."""
        if not named:
            return fields
        rest = dict(named)
        ordered = [rest.pop(name) for name in self.fields[len(fields) :] if name in rest]
        return (*fields, *ordered, *sorted(rest.items()))

    def Get(self, *args: Any, **kwargs: Any) -> Any:  # noqa: N802 - the name programs use
        """Return the value for some fields; None if there is none."""
        return self._values.get(self._key(args, kwargs))

    def ClearAll(self) -> None:  # noqa: N802 - the name programs use
        """Forget all values."""
        with self._lock:
            self._values.clear()
            self._taken.clear()

    def _growth(self, value: Any, before: Any) -> Any:
        """Return what `_add` makes `value` of `before`; `before` is None for a new value."""
        return value

    def _add(self, value: Any, growth: Any) -> Any:
        """Return a value with its growth in another process; the value is None if there is none."""
        return growth

    def take_growth(self) -> dict[tuple[Any, ...], Any]:
        """Return how values have grown since the last call."""
        with self._lock:
            values = dict(self._values)
            before, self._taken = self._taken, values
        return {
            key: self._growth(value, before.get(key))
            for key, value in values.items()
            if value != before.get(key)
        }

    def add_growth(self, growth: Mapping[tuple[Any, ...], Any]) -> None:
        """Add the growth of values in another process."""
        with self._lock:
            for key, value in growth.items():
                self._values[key] = self._add(self._values.get(key), value)

    def values(self) -> dict[tuple[Any, ...], Any]:
        """Return all values, by the values of the fields."""
        with self._lock:
            return dict(self._values)


# The metrics of this process; of several with one name, the most recent.
_metrics: weakref.WeakValueDictionary[str, _Values] = weakref.WeakValueDictionary()


# Metrics that only worker processes have defined.
_received: list[_Values] = []

Growth = tuple[Any, dict[tuple[Any, ...], Any]]


def _metric_named(kind: Any, name: str, arguments: dict[str, Any]) -> Any:
    """Return the metric with a name in this process."""
    found = _metrics.get(name)
    return found if type(found) is kind else kind(name, **arguments)


def take_growth() -> list[Growth]:
    """Return how the metrics of this process, a worker, have grown since the last call."""
    found: list[Growth] = []
    for metric in list(_metrics.values()):
        if growth := metric.take_growth():
            found.append((metric, growth))
    return found


def add_growth(growths: Iterable[Growth]) -> None:
    """Add the growth of metrics in a worker process to those of this process."""
    for metric, growth in growths:
        if not any(metric is known for known in _received):
            _received.append(metric)
        metric.add_growth(growth)


def all_metrics() -> Sequence[Counter | Metric | EventMetric]:
    """Return the metrics that the program has defined, in the order of their names."""
    found: list[Any] = [metric for _, metric in sorted(_metrics.items())]
    return found


class Counter(_Values):
    """A number that grows, for each value of its fields.

    >>> counter = Counter("/my/files", Metadata(description="Files read."), fields=[("kind", str)])
    >>> counter.Increment("parquet")
    >>> counter.IncrementBy(2, "parquet")
    >>> counter.Get("parquet")
    3
    """

    def __init__(self, name: str, metadata: Metadata | None = None, *args: Any, **kwargs: Any):
        del args
        super().__init__(name, metadata, kwargs.get("fields"))

    def Increment(self, *args: Any, **kwargs: Any) -> None:  # noqa: N802 - the name programs use
        """Add one."""
        self.IncrementBy(1, *args, **kwargs)

    def IncrementBy(self, value: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N802
        """Add a number."""
        key = self._key(args, kwargs)
        with self._lock:
            self._values[key] = self._values.get(key, 0) + value

    def _growth(self, value: Any, before: Any) -> Any:
        return value if before is None else value - before

    def _add(self, value: Any, growth: Any) -> Any:
        return growth if value is None else value + growth


class Metric(_Values):
    """A value that is set, for each value of its fields."""

    def __init__(
        self,
        name: str,
        value_type: type = float,
        metadata: Metadata | None = None,
        *args: Any,
        **kwargs: Any,
    ):
        del args
        super().__init__(name, metadata, kwargs.get("fields"))
        self.value_type = value_type

    def _arguments(self) -> dict[str, Any]:
        return super()._arguments() | {"value_type": self.value_type}

    def Set(self, value: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N802
        """Set the value."""
        with self._lock:
            self._values[self._key(args, kwargs)] = value


class EventMetric(_Values):
    """The distribution of values that are recorded one by one, for each value of its fields.

    >>> sizes = EventMetric("/my/sizes", bucketer=Bucketer.PowersOf(2))
    >>> sizes.Record(3)
    >>> sizes.Record(5)
    >>> sizes.Get()
    EventDistribution(count=2, total=8, least=3, greatest=5)
    """

    def __init__(self, name: str, metadata: Metadata | None = None, *args: Any, **kwargs: Any):
        del args
        super().__init__(name, metadata, kwargs.get("fields"))
        bucketer = self._bucketer = kwargs.get("bucketer")
        self._bounds = bucketer.bounds if isinstance(bucketer, Bucketer) else _DEFAULT_BOUNDS

    def _arguments(self) -> dict[str, Any]:
        return super()._arguments() | {"bucketer": self._bucketer}

    def _growth(self, value: Any, before: Any) -> Any:
        return value if before is None else value.since(before)

    def _add(self, value: Any, growth: Any) -> Any:
        return growth if value is None else value.plus(growth)

    def Record(self, value: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N802
        """Record one value."""
        key = self._key(args, kwargs)
        with self._lock:
            before = self._values.get(key)
            if before is None:
                empty = (0,) * (len(self._bounds) + 1)
                before = EventDistribution(0, 0, value, value, self._bounds, empty)
            self._values[key] = before.with_value(value)


def get_monitoring_root() -> None:
    """Return None: metrics have no common root."""
