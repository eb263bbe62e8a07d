"""Options that tune how a pipeline runs; none of them changes its elements."""

from __future__ import annotations

import dataclasses
import enum
import operator
from typing import Any, Generic, TypeVar, cast

from grain._lazy import LazyModule

T = TypeVar("T")

# Imported when there is something to log: most programs do not load it otherwise.
_logging: Any = LazyModule("logging")


def checked_int(name: str, value: Any, *, least: int) -> int:
    """Return `value` as an int, or raise an error that says what was expected."""
    try:
        number = None if isinstance(value, bool) else int(operator.index(value))
    except TypeError:
        number = None
    if number is None:
        raise TypeError(f"{name} must be an integer, got {value!r} of type {type(value).__name__}.")
    if number < least:
        wanted = {0: "non-negative", 1: "positive"}.get(least, f"at least {least}")
        raise ValueError(f"{name} must be {wanted}, got {number}")
    return number


def checked_seconds(name: str, value: Any) -> float:
    """Return `value` as a positive number of seconds, or raise an error that says what was expected.

    >>> checked_seconds("task_timeout", 0)
    Traceback (most recent call last):
    ValueError: task_timeout must be a positive number of seconds, got 0.
    """
    if isinstance(value, bool) or not hasattr(value, "__float__"):
        raise TypeError(
            f"{name} must be a number of seconds, got {value!r} of type {type(value).__name__}."
        )
    if not float(value) > 0:
        raise ValueError(f"{name} must be a positive number of seconds, got {value!r}.")
    return float(value)


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
        if 0 < self.prefetch_buffer_size < self.num_threads:
            # Message kept from google/grain 0.2.18
            _logging.getLogger("grain").warning(
                "prefetch_buffer_size=%d is smaller than num_threads=%d. This will limit the number of "
                "threads that can actually be used in parallel to %d, potentially hurting performance. "
                "Please set prefetch_buffer_size >= num_threads.",
                self.prefetch_buffer_size,
                self.num_threads,
                self.prefetch_buffer_size,
            )


class _NoWorkers(int):
    """The number of workers where none was given: 0 without an executor."""


_NO_WORKERS = _NoWorkers(0)


@dataclasses.dataclass(slots=True)
class MultiprocessingOptions:
    """Options of workers: processes, threads, or those of another executor.

    Attributes:
        num_workers: Workers; 0 computes in this process, None picks a number that suits the machine. The
            number never changes the elements, their order or the state. With an executor, the default
            is None.
        per_worker_buffer_size: The number of elements that each worker prefetches.
        enable_profiling: Whether iterators are observed with a timeline of each worker: `iterator.stats()`
            has it, and `grain.observe.exports.write_trace` writes it for Perfetto.
        executor: Computes the elements: `"processes"` (the default), `"threads"`, `"inline"`, the name of
            an installed plugin's executor, or an object with the members of `grain.execution.Executor`.
            None takes the setting `executor` of `grain.config`. It never changes the elements, their
            order or the state.
        max_worker_restarts: How often a lost worker is replaced before the loss is an error, for each
            worker and within a window of time; 0 for never. None takes the setting.
        task_timeout: Seconds after which a worker that computes one task is replaced; None takes the
            setting, which has no limit by default.
        worker_memory_limit: Bytes of memory of a worker above which it is replaced between two tasks;
            None takes the setting, which has no limit by default.

    >>> import grain
    >>> in_this_process = MultiprocessingOptions(num_workers=0)
    >>> list(grain.MapDataset.range(3).to_iter_dataset().mp_prefetch(in_this_process))
    [0, 1, 2]
    >>> in_threads = MultiprocessingOptions(num_workers=2, executor="threads")
    >>> list(grain.MapDataset.range(3).to_iter_dataset().mp_prefetch(in_threads))
    [0, 1, 2]
    """

    num_workers: int | None = _NO_WORKERS
    per_worker_buffer_size: int = 1
    enable_profiling: bool = False
    executor: Any = dataclasses.field(default=None, kw_only=True)
    max_worker_restarts: int | None = dataclasses.field(default=None, kw_only=True)
    task_timeout: float | None = dataclasses.field(default=None, kw_only=True)
    worker_memory_limit: int | None = dataclasses.field(default=None, kw_only=True)

    def __repr__(self) -> str:
        """Return the options of google/grain, and those of this project that are given."""
        names = ["num_workers", "per_worker_buffer_size", "enable_profiling"]
        own = (field.name for field in dataclasses.fields(self) if field.name not in names)
        names += [name for name in own if getattr(self, name) is not None]
        shown = ", ".join(f"{name}={getattr(self, name)!r}" for name in names)
        return f"MultiprocessingOptions({shown})"

    def __post_init__(self) -> None:
        if self.num_workers is _NO_WORKERS:
            self.num_workers = 0 if self.executor is None else None
        if self.num_workers is not None:
            self.num_workers = checked_int("num_workers", self.num_workers, least=0)
        self.per_worker_buffer_size = checked_int(
            "per_worker_buffer_size", self.per_worker_buffer_size, least=1
        )
        if not (
            self.executor is None
            or isinstance(self.executor, str)
            or hasattr(self.executor, "open")
        ):
            raise TypeError(
                "executor must be the name of an executor or an object with the members of "
                f"grain.execution.Executor, got {self.executor!r} of type "
                f"{type(self.executor).__name__}."
            )
        if self.max_worker_restarts is not None:
            self.max_worker_restarts = checked_int(
                "max_worker_restarts", self.max_worker_restarts, least=0
            )
        if self.task_timeout is not None:
            self.task_timeout = checked_seconds("task_timeout", self.task_timeout)
        if self.worker_memory_limit is not None:
            self.worker_memory_limit = checked_int(
                "worker_memory_limit", self.worker_memory_limit, least=1
            )


@dataclasses.dataclass(frozen=True, kw_only=True)
class ObservationOptions:
    """How the iterators of a pipeline are observed.

    Attributes:
        name: A name for the pipeline in exports; None for the default.
        trace: Whether to record a timeline.
    """

    name: str | None = None
    trace: bool = False


class ExecutionTrackingMode(enum.Enum):
    """What is measured while a pipeline runs."""

    DISABLED = 1
    """Nothing; the default."""
    STAGE_TIMING = 2
    """Time spent in each operation, and more: `iterator.stats()`."""


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
        execution_tracking_mode: What is measured while the dataset is iterated; `iterator.stats()` has it.
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
