"""Metrics that programs define for themselves; their values are kept in this process."""

from __future__ import annotations

import enum
import threading
from collections.abc import Callable
from typing import Any

__all__ = [
    "Bucketer",
    "Counter",
    "EventMetric",
    "Metadata",
    "Metric",
    "Units",
    "get_monitoring_root",
]


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


class _Values:
    """Values by the fields of a metric."""

    def __init__(self, name: str, metadata: Metadata | None):
        self.name = name
        self.metadata = metadata
        self._values: dict[Any, Any] = {}
        self._lock = threading.Lock()

    def _update(
        self, fields: tuple[Any, ...], named: dict[str, Any], change: Callable[[Any], Any]
    ) -> None:
        key = (*fields, *sorted(named.items()))
        with self._lock:
            self._values[key] = change(self._values.get(key))

    def Get(self, *args: Any, **kwargs: Any) -> Any:  # noqa: N802 - the name programs use
        """Return the value for some fields; None if there is none."""
        return self._values.get((*args, *sorted(kwargs.items())))

    def ClearAll(self) -> None:  # noqa: N802 - the name programs use
        """Forget all values."""
        with self._lock:
            self._values.clear()


class Counter(_Values):
    """A number that grows, for each value of its fields.

    >>> counter = Counter("/my/files", Metadata(description="Files read."), fields=[("kind", str)])
    >>> counter.Increment("parquet")
    >>> counter.IncrementBy(2, "parquet")
    >>> counter.Get("parquet")
    3
    """

    def __init__(self, name: str, metadata: Metadata | None = None, *args: Any, **kwargs: Any):
        del args, kwargs
        super().__init__(name, metadata)

    def Increment(self, *args: Any, **kwargs: Any) -> None:  # noqa: N802 - the name programs use
        """Add one."""
        self.IncrementBy(1, *args, **kwargs)

    def IncrementBy(self, value: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N802
        """Add a number."""
        self._update(args, kwargs, lambda old: (old or 0) + value)


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
        del args, kwargs
        super().__init__(name, metadata)
        self.value_type = value_type

    def Set(self, value: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N802
        """Set the value."""
        self._update(args, kwargs, lambda old: value)


class EventMetric(_Values):
    """Values that are recorded one by one, for each value of its fields; `Get` returns their list."""

    def __init__(self, name: str, metadata: Metadata | None = None, *args: Any, **kwargs: Any):
        del args, kwargs
        super().__init__(name, metadata)

    def Record(self, value: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N802
        """Record one value."""
        self._update(args, kwargs, lambda old: [*(old or ()), value])


def get_monitoring_root() -> None:
    """Return None: metrics have no common root."""
