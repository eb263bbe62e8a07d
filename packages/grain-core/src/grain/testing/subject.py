"""Subjects: a case with its instances and elements, shared by the checks of the case."""

from __future__ import annotations

import copy
import itertools
import shutil
import tempfile
import weakref
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Generic, TypeVar

from grain.plugins.discovery import Settings, read_plugin
from grain.plugins.spec import Plugin
from grain.testing.case import Case, CaseKind
from grain.testing.compare import snapshot
from grain.testing.sampling import MOST_INDICES, MOST_STREAM_ELEMENTS, sample_indices
from grain.testing.subprocess_probe import ProbeResult, probe_subprocess
from grain.testing.transform_calls import apply_all
from grain.version import __version__

_T = TypeVar("_T")


class _cached(Generic[_T]):  # noqa: N801 (a decorator)
    """`functools.cached_property` without a lock, which in Python 3.11 all instances share.

    A check that hangs while it computes a property must not block the checks of other subjects.
    """

    def __init__(self, function: Callable[[Any], _T]):
        self._function = function
        self.__doc__ = function.__doc__

    def __get__(self, instance: Any, owner: type) -> _T:
        if instance is None:
            return self  # type: ignore[return-value]
        value = self._function(instance)
        instance.__dict__[self._function.__name__] = value
        return value


class NotApplicable(Exception):  # noqa: N818 (an outcome, not an error)
    """Raised by a check that has nothing to check in a case; the check is skipped."""


class ConsequenceError(AssertionError):
    """Raised by a check that fails because of what another check reports.

    Attributes:
        cause: The name of the other check.
    """

    def __init__(self, message: str, cause: str):
        super().__init__(message)
        self.cause = cause


class Subject:
    """Argument of every check: the case, new instances of its source, and its elements.

    A check is a function of a subject and can be called directly:

    Example:
        >>> import functools, grain
        >>> from grain.testing.checks import indexing
        >>> make = functools.partial(grain.sources.RangeDataSource, 0, 10, 2)
        >>> subject = Subject(Case(name="even", make=make))
        >>> indexing.check_all_indices_readable(subject)
        >>> subject.elements
        [0, 2, 4, 6, 8]

    Attributes:
        case: The case.
        seconds: The time spent in checks.
        longest_check: The time spent in the longest check.
        abandoned_check: The name of a check that is out of time and still running; empty otherwise.
        hung_check: The name of that check if it hangs; empty otherwise.
    """

    def __init__(self, case: Case):
        self.case = case
        self.seconds = 0.0
        self.longest_check = 0.0
        self.abandoned_check = ""
        self.hung_check = ""

    @_cached
    def directory(self) -> str | None:
        """Return the directory with the case's prepared data; None for a case without `prepare`."""
        if self.case.prepare is None:
            return None
        directory = tempfile.mkdtemp(prefix="grain-conformance-")
        # A TemporaryDirectory would warn when it is not closed explicitly.
        weakref.finalize(self, shutil.rmtree, directory, ignore_errors=True)
        self.case.prepare(directory)
        return directory

    def fresh(self, make: Callable[..., Any] | None = None) -> Any:
        """Return a new instance, made by `make` or else by the case's own function."""
        make = make or self.case.make
        return make() if self.directory is None else make(self.directory)

    @_cached
    def sampled_indices(self) -> Sequence[int]:
        """Return the indices of a map source that the checks try to read; see `sampling`."""
        return sample_indices(len(self.fresh()))

    @_cached
    def indices(self) -> Sequence[int]:
        """Return the sampled indices of a map source that are readable."""
        source = self.fresh()
        return [index for index in self.sampled_indices if _is_readable(source, index)]

    @property
    def order(self) -> list[int]:
        """The indices of the elements that `read` returns of a map source, map dataset or transform."""
        return list(self.indices if self.case.kind.is_indexed else range(len(self.case.inputs)))

    @property
    def stream_limit(self) -> int:
        """The number of elements to read of a stream, which may be endless."""
        expected = (self.case.length or 0, len(self.case.elements or ()))
        return max(MOST_STREAM_ELEMENTS, *expected) + 1

    @property
    def is_truncated(self) -> bool:
        """Whether `elements` are only the start of a longer stream."""
        return self.case.kind.is_stream and len(self.elements) == self.stream_limit

    def notes(self) -> tuple[str, ...]:
        """Return remarks for the report: which elements of a long source were read."""
        try:
            if self.case.kind.is_indexed and (length := len(self.fresh())) > MOST_INDICES:
                return (
                    f"read a seeded sample of {MOST_INDICES} of {length:,} records, the first and"
                    " the last included.",
                )
            if self.is_truncated:
                return (f"read only the first {self.stream_limit} elements of the stream.",)
        except Exception:  # the checks report it
            pass
        return ()

    def read(self, instance: Any, order: Sequence[int] | None = None) -> list[Any]:
        """Return a snapshot of each element of an instance, taken as the element was read.

        Args:
            instance: A source, a dataset or a transform.
            order: For a map source, a map dataset and a transform, the indices to read; by default forward.
        """
        return list(map(snapshot, self.read_live(instance, order)))

    def read_live(self, instance: Any, order: Sequence[int] | None = None) -> Iterable[Any]:
        """Yield the elements themselves."""
        if self.case.kind.is_indexed:
            return (instance[index] for index in (self.indices if order is None else order))
        if self.case.kind is CaseKind.TRANSFORM:
            return apply_all(instance, [copy.deepcopy(e) for e in self.case.inputs], order)
        return itertools.islice(instance, self.stream_limit)

    def rest(self, iterator: Any, step: int = 0) -> list[Any]:
        """Return snapshots of the elements of a stream's iterator after the first `step` ones."""
        return list(map(snapshot, itertools.islice(iterator, self.stream_limit - step)))

    @_cached
    def elements(self) -> list[Any]:
        """Return the elements of a new instance, read forward."""
        return self.read(self.fresh())

    @_cached
    def plugin(self) -> Plugin:
        """Return the plugin of a plugin case, with its specs."""
        return read_plugin(self.fresh(), settings=Settings(), core=__version__)

    @_cached
    def subprocess(self) -> ProbeResult:
        """Return observations of a subprocess with a different hash seed; started once."""
        indices = self.indices if self.case.kind.is_indexed else None
        return probe_subprocess(self.case, self.directory, indices, self.stream_limit)


def _is_readable(source: Any, index: int) -> bool:
    try:
        source[index]
    except Exception:
        return False
    return True
