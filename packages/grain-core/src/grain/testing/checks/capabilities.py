"""Capabilities: declared ones are present, and present ones are declared."""

from __future__ import annotations

from typing import Any

from grain.plugins.spec import Capability
from grain.testing.case import CaseKind
from grain.testing.compare import expect_same_all
from grain.testing.subject import Subject

BY_PATH = (Capability.GLOBS, Capability.REMOTE_PATHS)
"""Capabilities that need another way to make the source; see `Case.ways`."""


def check_declared_capabilities_present(subject: Subject) -> None:
    """Check that every declared capability is present.

    Implement the methods of the capability, or remove it from the spec's `capabilities`. For
    paths, give the case a way to make the source from such a path.
    """
    case = subject.case
    present = _present(subject)
    for capability in sorted(case.capabilities or ()):
        if capability in present:
            assert present[capability], f"{capability.value!r} is declared but not present."
        if capability in BY_PATH:
            way = case.ways.get(capability)
            assert way is not None, (
                f"{capability.value!r} is declared, but the case has no way to check it: give"
                f" Case(ways={{Capability.{capability.name}: …}})."
            )
            try:
                elements = subject.read(subject.fresh(way))
            except Exception as error:
                raise AssertionError(f"{capability.value!r} failed: {error!r}.") from error
            expect_same_all(subject.elements, elements, f"a source made for {capability.value!r}")


def check_present_capabilities_declared(subject: Subject) -> None:
    """Check that every present capability is declared.

    Add it to the `capabilities` of the spec, or of a case without a spec: an undeclared capability
    is neither used nor checked.
    """
    present = [capability for capability, there in _present(subject).items() if there]
    present += [capability for capability in subject.case.ways if capability in BY_PATH]
    missing = [capability.value for capability in present if not subject.case.can(capability)]
    assert not missing, f"present but not declared: {', '.join(sorted(missing))}."


def _present(subject: Subject) -> dict[Capability, bool]:
    """Return which of the capabilities that methods reveal an instance has."""
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
    except Exception:  # present but broken: another check reports it
        return True
