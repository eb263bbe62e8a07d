"""Options that tune how a pipeline runs; none of them changes its elements."""

from __future__ import annotations

import dataclasses
import enum
from typing import Any, Generic, TypeVar, cast

T = TypeVar("T")


def checked_int(name: str, value: Any, *, least: int) -> int:
    """Return `value` as an int, or raise an error that says what was expected."""
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(f"{name} must be an integer, got {value!r} of type {type(value).__name__}.")
    number = int(value.__index__())
    if number < least:
        wanted = {0: "non-negative", 1: "positive"}.get(least, f"at least {least}")
        raise ValueError(f"{name} must be {wanted}, got {number}")
    return number


def checked_type(name: str, value: Any, kind: type[T] | tuple[type[T], ...], wanted: str) -> T:
    """Return `value`, or raise an error that says what was expected.

    >>> checked_type("mask_name", 3, str, "a text")
    Traceback (most recent call last):
    TypeError: mask_name must be a text, got 3 of type int.
    """
    if not isinstance(value, kind):
        raise TypeError(f"{name} must be {wanted}, got {value!r} of type {type(value).__name__}.")
    return value


@dataclasses.dataclass(slots=True)
class ReadOptions:
    """Options of the read-ahead in one process.

    Attributes:
        num_threads: Threads that read concurrently. 0 reads in the consumer's thread. Threads are
            started only when reading is slow enough, or the consumer busy enough, to profit from them.
        prefetch_buffer_size: The maximum number of prefetched elements. 0 disables read-ahead.

    >>> import grain
    >>> options = ReadOptions(num_threads=4, prefetch_buffer_size=100)
    >>> next(iter(grain.MapDataset.range(3).to_iter_dataset(options)))
    0
    """

    num_threads: int = 16
    prefetch_buffer_size: int = 500

    def __post_init__(self) -> None:
        self.num_threads = checked_int("num_threads", self.num_threads, least=0)
        self.prefetch_buffer_size = checked_int(
            "prefetch_buffer_size", self.prefetch_buffer_size, least=0
        )


@dataclasses.dataclass(slots=True)
class MultiprocessingOptions:
    """Options of worker processes.

    Attributes:
        num_workers: Worker processes; 0 computes in this process, None picks a number that suits the
            machine. The number never changes the elements, their order or the state.
        per_worker_buffer_size: The number of elements that each worker prefetches.
        enable_profiling: Accepted for compatibility.

    >>> import grain
    >>> in_this_process = MultiprocessingOptions(num_workers=0)
    >>> list(grain.MapDataset.range(3).to_iter_dataset().mp_prefetch(in_this_process))
    [0, 1, 2]
    """

    num_workers: int | None = 0
    per_worker_buffer_size: int = 1
    enable_profiling: bool = False

    def __post_init__(self) -> None:
        if self.num_workers is not None:
            self.num_workers = checked_int("num_workers", self.num_workers, least=0)
        self.per_worker_buffer_size = checked_int(
            "per_worker_buffer_size", self.per_worker_buffer_size, least=1
        )


class ExecutionTrackingMode(enum.Enum):
    """What is measured while a pipeline runs."""

    DISABLED = 1
    """Nothing; the default."""
    STAGE_TIMING = 2
    """Time spent in each operation."""


@dataclasses.dataclass(frozen=True)
class _Default(Generic[T]):
    """A default value, to be distinguished from a value that the user gave."""

    value: T


@dataclasses.dataclass(kw_only=True, frozen=True)
class DatasetOptions:
    """Options of a whole dataset, given with `WithOptionsIterDataset`.

    Attributes:
        filter_warn_threshold_ratio: A filter that drops this share of its elements, or more, warns;
            None or 0 never warns.
        filter_raise_threshold_ratio: The same for raising a ValueError; None or 0 never raises.
        execution_tracking_mode: What is measured while the dataset is iterated.
        min_shm_size: Accepted for compatibility; the transport between processes decides itself.

    >>> import grain
    >>> ds = grain.MapDataset.range(3000).to_iter_dataset().filter(lambda x: x == 7)
    >>> quiet = DatasetOptions(filter_warn_threshold_ratio=None)
    >>> list(grain.experimental.WithOptionsIterDataset(ds, quiet))
    [7]
    """

    filter_warn_threshold_ratio: float | _Default[float] | None = _Default(0.9)
    filter_raise_threshold_ratio: float | _Default[None] | None = _Default(None)
    execution_tracking_mode: ExecutionTrackingMode | _Default[ExecutionTrackingMode] = _Default(
        ExecutionTrackingMode.DISABLED
    )
    min_shm_size: int | _Default[int] = _Default(0)

    # Fields that the user gave; when options are merged they take precedence over defaults.
    _user_set_fields: set[str] = dataclasses.field(default_factory=set, init=False)

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            if not field.init:
                continue
            value = getattr(self, field.name)
            if isinstance(value, _Default):
                object.__setattr__(self, field.name, value.value)
            else:
                self._user_set_fields.add(field.name)
        checked_type(
            "execution_tracking_mode",
            self.execution_tracking_mode,
            ExecutionTrackingMode,
            "a grain.experimental.ExecutionTrackingMode",
        )
        for name in ("filter_warn_threshold_ratio", "filter_raise_threshold_ratio"):
            ratio = getattr(self, name)
            if ratio is None:
                continue
            if not hasattr(ratio, "__float__"):
                raise TypeError(f"{name} must be None or a number >= 0, got {ratio!r}.")
            if not ratio >= 0:
                raise ValueError(f"{name} must be None or a number >= 0, got {ratio!r}.")

    def merge(self, other: DatasetOptions | None) -> DatasetOptions:
        """Return two sets of options combined; values given in `self` take precedence.

        >>> near = DatasetOptions(filter_warn_threshold_ratio=0.5)
        >>> far = DatasetOptions(filter_warn_threshold_ratio=0.1, filter_raise_threshold_ratio=0.9)
        >>> both = near.merge(far)
        >>> both.filter_warn_threshold_ratio, both.filter_raise_threshold_ratio
        (0.5, 0.9)
        """
        if other is None:
            return self
        given: dict[str, Any] = {}
        for options in (other, self):
            for name in options._user_set_fields:
                given[name] = getattr(options, name)
        return DatasetOptions(**given)

    @property
    def warn_ratio(self) -> float | None:
        return cast("float | None", self.filter_warn_threshold_ratio)

    @property
    def raise_ratio(self) -> float | None:
        return cast("float | None", self.filter_raise_threshold_ratio)
