"""Capabilities honest in both directions: what is declared holds, what is there is declared."""

from __future__ import annotations

from typing import Any

from grain.plugins.spec import Capability
from grain.testing.case import CaseKind
from grain.testing.compare import expect_same_all
from grain.testing.subject import Subject

BY_PATH = (Capability.GLOBS, Capability.REMOTE_PATHS)
"""What only another way of making the source can show; see `Case.ways`."""


def check_declared_capabilities_present(subject: Subject) -> None:
    """Every capability that is declared is there.

    Write the method that the capability names, or take it out of the spec's `capabilities`. For
    paths, give the case a way to make the source with such a path.
    """
    case = subject.case
    present = _present(subject)
    for capability in sorted(case.capabilities or ()):
        if capability in present:
            assert present[capability], f"{capability.value!r} is declared, and is not there."
        if capability in BY_PATH:
            way = case.ways.get(capability)
            assert way is not None, (
                f"{capability.value!r} is declared, and the case has no way to show it:"
                f" Case(ways={{Capability.{capability.name}: …}})."
            )
            try:
                elements = subject.read(subject.fresh(way))
            except Exception as error:
                raise AssertionError(f"{capability.value!r} failed: {error!r}.") from error
            expect_same_all(subject.elements, elements, f"by way of {capability.value!r}")


def check_present_capabilities_declared(subject: Subject) -> None:
    """Every capability that is there is declared.

    Add it to the `capabilities` of the spec, or of a case without a spec: what is not declared is
    neither used nor checked.
    """
    present = [capability for capability, there in _present(subject).items() if there]
    present += [capability for capability in subject.case.ways if capability in BY_PATH]
    missing = [capability.value for capability in present if not subject.case.can(capability)]
    assert not missing, f"there, and not declared: {', '.join(sorted(missing))}."


def _present(subject: Subject) -> dict[Capability, bool]:
    """The capabilities that an instance shows by its methods, and whether it has them."""
    if subject.case.kind is not CaseKind.MAP_SOURCE:
        return {}
    source = subject.fresh()
    kind = type(source)
    return {
        Capability.BATCHED_READ: callable(getattr(kind, "__getitems__", None)),
        Capability.COLUMNS: _gives_columns(source, list(subject.indices)),
        Capability.CLOSABLE: all(
            callable(getattr(kind, name, None)) for name in ("close", "__enter__", "__exit__")
        ),
    }


def _gives_columns(source: Any, indices: list[int]) -> bool:
    columns = getattr(source, "__getcolumns__", None)
    if columns is None or not indices:
        return columns is not None
    try:
        return columns(indices) is not None
    except Exception:  # there, but broken: for another check to say
        return True
