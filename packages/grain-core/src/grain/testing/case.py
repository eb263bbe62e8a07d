"""Cases: one source, transform or plugin under test, and how to make instances of it."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from grain.plugins.spec import Capability
from grain.testing.former_names import current_name

DEFAULT_PICKLE_BYTES = 32 * 1024
"""Default limit of a pickle's size: room for paths and offsets, not for records."""

DEFAULT_CHECK_TIMEOUT = 60.0
"""Default limit of seconds per check."""

DEFAULT_BUDGET = 300.0
"""Default limit of seconds for all checks of a case."""


class CaseKind(enum.StrEnum):
    """The contract that a case is checked against."""

    MAP_SOURCE = "map-source"
    """Random access: `len(source)` and `source[index]`."""

    ITER_SOURCE = "iter-source"
    """Sequential access: a `grain.IterDataset` whose iterators resume from a state."""

    TRANSFORM = "transform"
    """A transformation of elements, from `grain.transforms`, or a plain function of an element."""

    MAP_DATASET = "map-dataset"
    """An own subclass of `grain.MapDataset`, with or without parents."""

    ITER_DATASET = "iter-dataset"
    """An own subclass of `grain.IterDataset` and its `grain.DatasetIterator`, with or without parents."""

    EXECUTOR = "executor"
    """A `grain.execution.Executor`, which computes the tasks of pipelines."""

    PLUGIN = "plugin"
    """A plugin's metadata; `make` returns a `grain.plugins.discovery.Candidate`."""

    @property
    def is_indexed(self) -> bool:
        """Whether elements are read by index."""
        return self in (CaseKind.MAP_SOURCE, CaseKind.MAP_DATASET)

    @property
    def is_stream(self) -> bool:
        """Whether elements are read by an iterator with a state."""
        return self in (CaseKind.ITER_SOURCE, CaseKind.ITER_DATASET)

    @property
    def is_dataset(self) -> bool:
        """Whether instances are datasets of grain, whose fingerprint is stored in checkpoints."""
        return self.is_stream or self is CaseKind.MAP_DATASET


class FailureKind(enum.StrEnum):
    """The reason category of an expected failure."""

    BY_DESIGN = "by-design"
    """The contract is broken on purpose, and documented."""

    DEPENDENCY = "dependency"
    """The cause is in a dependency."""

    PLATFORM = "platform"
    """The check fails on some platforms only."""

    NOT_YET = "not-yet"
    """A fix is planned."""


class ExpectedFailure(NamedTuple):
    """A known failure of a check: its kind and its reason."""

    kind: FailureKind
    reason: str


@dataclass(frozen=True, kw_only=True)
class Case:
    """One subject of the conformance checks.

    Attributes:
        name: The name shown in reports.
        make: Returns a new instance of the source or transform, equal on every call. It is also
            called in other processes, so it should be a module-level function. With `prepare` it
            receives the prepared directory.
        make_larger: Returns an instance with at least ten times as many elements, made like
            `make`. With it, the kit checks that a pickle does not grow with the data.
        make_different: Returns a dataset of the same class with other arguments and therefore other
            elements. With it, the kit checks that the fingerprints of the two differ.
        kind: The contract to check.
        prepare: Writes the data to the directory of the case; called once.
        elements: All elements expected, in order; for a transform, its results.
        length: The number of elements expected, where `elements` is not given.
        inputs: The elements to transform; for a `grain.transforms.Batch`, lists of elements.
        invalid_inputs: Elements that the transform must refuse with an exception.
        capabilities: The capabilities of the source. None means those of the plugin's spec, or
            none without a plugin.
        ways: For the capabilities `GLOBS` and `REMOTE_PATHS`: functions that make the same source
            from a pattern or a remote path.
        mutates_input: Whether the transform is documented to change its input in place.
        pickle_bytes: The largest size of a pickled instance.
        check_timeout: The largest number of seconds per check.
        budget: The largest number of seconds for all checks.
        spec: The name of the plugin's spec that the case covers.
        expected_failures: Checks that are known to fail: `{name: (kind, reason)}`. A name that is
            not a check of this kind fails, and so does a listed check that passes.

    Example:
        >>> import functools, grain
        >>> make = functools.partial(grain.sources.RangeDataSource, 0, 10, 2)
        >>> Case(name="even", make=make, elements=[0, 2, 4, 6, 8]).kind
        <CaseKind.MAP_SOURCE: 'map-source'>
    """

    name: str
    make: Callable[..., Any]
    make_larger: Callable[..., Any] | None = None
    make_different: Callable[..., Any] | None = None
    kind: CaseKind = CaseKind.MAP_SOURCE
    prepare: Callable[[str], Any] | None = None
    elements: Sequence[Any] | None = None
    length: int | None = None
    inputs: Sequence[Any] = ()
    invalid_inputs: Sequence[Any] = ()
    capabilities: frozenset[Capability] | None = None
    ways: Mapping[Capability, Callable[..., Any]] = field(default_factory=dict)
    mutates_input: bool = False
    pickle_bytes: int = DEFAULT_PICKLE_BYTES
    check_timeout: float = DEFAULT_CHECK_TIMEOUT
    budget: float = DEFAULT_BUDGET
    spec: str = ""
    expected_failures: Mapping[str, ExpectedFailure] = field(default_factory=dict)

    def __post_init__(self) -> None:
        freeze = object.__setattr__
        freeze(self, "kind", CaseKind(self.kind))
        if not self.name or not isinstance(self.name, str):
            raise ValueError(f"Case(name=…) got {self.name!r}, expected a non-empty string.")
        for name in ("make", "make_larger", "make_different", "prepare"):
            function = getattr(self, name)
            if not callable(function) and (name == "make" or function is not None):
                raise TypeError(f"Case({name}=…) got {function!r}, expected a function.")
        for name in ("check_timeout", "budget"):
            if not getattr(self, name) > 0:
                raise ValueError(f"Case({name}=…) got {getattr(self, name)!r}, expected seconds.")
        if self.capabilities is not None:
            freeze(self, "capabilities", _capabilities(self.capabilities))
        freeze(self, "ways", {Capability(key): way for key, way in self.ways.items()})
        freeze(
            self,
            "expected_failures",
            {
                current_name(name): _expected(name, value)
                for name, value in self.expected_failures.items()
            },
        )
        if self.kind is CaseKind.TRANSFORM and not len(self.inputs):
            raise ValueError(
                f"Case {self.name!r} is a transform without inputs: give the elements to"
                " transform, Case(inputs=[…])."
            )

    def can(self, capability: Capability) -> bool:
        """Return whether the case declares this capability."""
        return self.capabilities is not None and capability in self.capabilities


def _capabilities(given: Iterable[Any]) -> frozenset[Capability]:
    return frozenset(Capability(capability) for capability in given)


def _expected(name: str, value: Any) -> ExpectedFailure:
    try:
        kind, reason = value
        kind = FailureKind(kind)
    except (TypeError, ValueError):
        kinds = ", ".join(kind.value for kind in FailureKind)
        raise ValueError(
            f"Case(expected_failures={{{name!r}: …}}) got {value!r}, expected a kind and a reason;"
            f" the kinds are {kinds}."
        ) from None
    if not isinstance(reason, str) or not reason.strip():
        raise ValueError(
            f"Case(expected_failures={{{name!r}: …}}) needs a reason that is not empty."
        )
    return ExpectedFailure(kind, reason)
