"""What is put to the test: one source, transform or plugin, and how to make it again and again."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from grain.plugins.spec import Capability
from grain.testing.former_names import current_name

DEFAULT_PICKLE_BYTES = 32 * 1024
"""What a pickle may weigh unless the case says otherwise: paths and offsets, not records."""


class CaseKind(enum.StrEnum):
    """Which contract a case is held to."""

    MAP_SOURCE = "map-source"
    """Random access: `len(source)` and `source[index]`."""

    ITER_SOURCE = "iter-source"
    """A `grain.IterDataset` that reads in its own order and resumes."""

    TRANSFORM = "transform"
    """A transformation of elements, from `grain.transforms`, or a plain function of an element."""

    PLUGIN = "plugin"
    """What an entry point announces; `make` gives a `grain.plugins.discovery.Candidate`."""


class FailureKind(enum.StrEnum):
    """Why a check is expected to fail."""

    BY_DESIGN = "by-design"
    """The contract is broken on purpose, and users are told."""

    DEPENDENCY = "dependency"
    """A library underneath is at fault."""

    PLATFORM = "platform"
    """It fails on some systems only."""

    NOT_YET = "not-yet"
    """It will be mended."""


class ExpectedFailure(NamedTuple):
    """That a check fails is known, with a kind and a reason."""

    kind: FailureKind
    reason: str


@dataclass(frozen=True, kw_only=True)
class Case:
    """One thing to check.

    Attributes:
        name: What reports call it.
        make: Makes the source or transform anew, the same each time. It is called in other
            processes too, so it should be a function of a module. With `prepare` it gets the
            directory that was prepared.
        kind: Which contract it is held to.
        prepare: Writes the data to a directory that is the case's own; called once.
        elements: All elements it must give, in order; for a transform, its results.
        length: How many elements it must give, when it is not for `elements` to say.
        inputs: The elements a transform gets.
        capabilities: What it can do beyond the bare contract. None means those of the plugin's
            spec, or no capabilities when there is no plugin.
        ways: For the capabilities `GLOBS` and `REMOTE_PATHS`: makes the same source by that way.
        mutates_input: Whether a transform says openly that it changes what it is given.
        pickle_bytes: How large its pickle may be.
        spec: The name of the spec it is an instance of, for cases that a plugin supplies.
        expected_failures: Checks that are known to fail: `{name: (kind, reason)}`. A name that is
            no check of this kind fails, and so does a check that passes after all.

    Example:
        >>> import functools, grain
        >>> make = functools.partial(grain.sources.RangeDataSource, 0, 10, 2)
        >>> Case(name="even", make=make, elements=[0, 2, 4, 6, 8]).kind
        <CaseKind.MAP_SOURCE: 'map-source'>
    """

    name: str
    make: Callable[..., Any]
    kind: CaseKind = CaseKind.MAP_SOURCE
    prepare: Callable[[str], Any] | None = None
    elements: Sequence[Any] | None = None
    length: int | None = None
    inputs: Sequence[Any] = ()
    capabilities: frozenset[Capability] | None = None
    ways: Mapping[Capability, Callable[..., Any]] = field(default_factory=dict)
    mutates_input: bool = False
    pickle_bytes: int = DEFAULT_PICKLE_BYTES
    spec: str = ""
    expected_failures: Mapping[str, ExpectedFailure] = field(default_factory=dict)

    def __post_init__(self) -> None:
        freeze = object.__setattr__
        freeze(self, "kind", CaseKind(self.kind))
        if not self.name or not isinstance(self.name, str):
            raise ValueError(f"Case(name=…) got {self.name!r}, expected a short text.")
        for name, function in {"make": self.make, "prepare": self.prepare}.items():
            if not callable(function) and (name == "make" or function is not None):
                raise TypeError(f"Case({name}=…) got {function!r}, expected a function.")
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
                f"Case {self.name!r} is of a transform and has no inputs: give the elements to"
                " transform, Case(inputs=[…])."
            )

    def can(self, capability: Capability) -> bool:
        """Whether the case says that it has this capability."""
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
            f" kinds are {kinds}."
        ) from None
    if not isinstance(reason, str) or not reason.strip():
        raise ValueError(f"Case(expected_failures={{{name!r}: …}}) needs a reason in words.")
    return ExpectedFailure(kind, reason)
