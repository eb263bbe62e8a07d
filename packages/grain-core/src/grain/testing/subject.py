"""Subjects: a case with its instances and elements, shared by the checks of the case."""

from __future__ import annotations

import copy
import functools
import shutil
import tempfile
import weakref
from collections.abc import Callable, Sequence
from typing import Any

from grain.plugins.discovery import Settings, read_plugin
from grain.plugins.spec import Plugin
from grain.testing.apply import apply_all
from grain.testing.case import Case, CaseKind
from grain.testing.compare import snapshot
from grain.testing.subprocess_probe import ProbeResult, probe_subprocess
from grain.version import __version__

MOST_INDICES = 64
"""The number of records read from a long source, spread over the whole source."""


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
    """

    def __init__(self, case: Case):
        self.case = case

    @functools.cached_property
    def directory(self) -> str | None:
        """The directory with the case's prepared data; None for a case without `prepare`."""
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

    @functools.cached_property
    def indices(self) -> Sequence[int]:
        """The sampled indices of a map source that are readable."""
        source = self.fresh()
        length = len(source)
        wanted = range(length)
        if length > MOST_INDICES:
            wanted = range(0, length, -(-length // MOST_INDICES))
        return [index for index in wanted if _is_readable(source, index)]

    def read(self, instance: Any, order: Sequence[int] | None = None) -> list[Any]:
        """Return a snapshot of each element of an instance, taken as the element was read.

        Args:
            instance: A map source, an iter source or a transform.
            order: For a map source and a transform, the indices to read; by default forward.
        """
        return list(map(snapshot, self.read_live(instance, order)))

    def read_live(self, instance: Any, order: Sequence[int] | None = None) -> Any:
        """Yield the elements themselves."""
        if self.case.kind is CaseKind.MAP_SOURCE:
            return (instance[index] for index in (self.indices if order is None else order))
        if self.case.kind is CaseKind.TRANSFORM:
            return apply_all(instance, [copy.deepcopy(e) for e in self.case.inputs], order)
        return iter(instance)

    @functools.cached_property
    def elements(self) -> list[Any]:
        """The elements of a new instance, read forward."""
        return self.read(self.fresh())

    @functools.cached_property
    def plugin(self) -> Plugin:
        """The plugin of a plugin case, with its specs."""
        return read_plugin(self.fresh(), settings=Settings(), core=__version__)

    @functools.cached_property
    def subprocess(self) -> ProbeResult:
        """Observations of a subprocess with a different hash seed; started once."""
        indices = self.indices if self.case.kind is CaseKind.MAP_SOURCE else None
        return probe_subprocess(self.case, self.directory, indices)


def _is_readable(source: Any, index: int) -> bool:
    try:
        source[index]
    except Exception:
        return False
    return True
