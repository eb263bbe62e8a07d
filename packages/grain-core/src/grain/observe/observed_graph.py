"""The nodes of an observed pipeline: their numbers, and what is known about them without reading."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Iterator, Sequence
from typing import Any

from grain.dataset import written_form

# Arguments of operations that are functions of the user, in the order in which they are looked up.
_FUNCTION_ARGUMENTS = ("transform", "batch_fn", "function", "functions")


@dataclasses.dataclass(frozen=True)
class GraphNode:
    """A node of the pipeline.

    Attributes:
        number: Its number: a node comes after its parents.
        node: The dataset, as the user made it.
        parents: The numbers of its parents.
        drops: Whether the operation drops elements.
    """

    number: int
    node: Any
    parents: tuple[int, ...]
    drops: bool

    @property
    def name(self) -> str:
        """The operation as one would write it."""
        text = written_form.call_of(self.node)
        if text.startswith("pipe(") and text.endswith(")"):
            return text[len("pipe(") : -1]
        return text.removeprefix("MapDataset.").removeprefix("IterDataset.")

    @property
    def operation(self) -> str:
        """The name of the operation: `source`, `map`, `batch`, ..."""
        name = self.name
        if name.startswith("["):
            return "slice"
        return name.partition("(")[0]

    @property
    def function(self) -> str | None:
        """The name of the function of the user; None without one."""
        try:
            arguments = self.node.fingerprint_arguments()
            found = next(
                (
                    arguments[name]
                    for name in _FUNCTION_ARGUMENTS
                    if arguments.get(name) is not None
                ),
                None,
            )
            return None if found is None else _function_name(found)
        except Exception:
            return None

    @property
    def spec(self) -> str | None:
        """The spec of its elements as text; None where it is unknown."""
        return written_form.element_text(self.node) or None

    @property
    def length(self) -> int | None:
        """The number of its elements; None where it is unknown or unlimited."""
        try:
            node = self.node
            known = node.known_length() if hasattr(node, "known_length") else len(node)
        except Exception:
            return None
        return None if known is None or known >= sys.maxsize else int(known)


def _function_name(function: Any) -> str:
    """Return the name of a function, or of the class of a transformation."""
    if isinstance(function, (list, tuple)):
        return ", ".join(map(_function_name, function))
    if hasattr(function, "__qualname__"):
        return written_form.value_text(function).rpartition(".")[2]
    if hasattr(function, "func"):  # functools.partial
        return _function_name(function.func)
    return type(function).__qualname__.rpartition("<locals>.")[2]


def drops_elements(node: Any) -> bool:
    """Return whether a node leaves out elements of its parent."""
    if hasattr(node, "drops_elements"):
        return bool(node.drops_elements)
    return bool(node.fingerprint_name == "filter")


def is_sparse(node: Any) -> bool:
    """Return whether elements of a map dataset may be None because they were filtered out."""
    try:
        return bool(getattr(node, "is_sparse", False))
    except Exception:
        return False


def in_order(dataset: Any) -> Iterator[Any]:
    """Yield the nodes of a pipeline, each once and after its parents; depth does not matter."""
    seen: set[int] = set()
    pending: list[tuple[Any, bool]] = [(dataset, False)]
    while pending:
        node, has_parents = pending.pop()
        if id(node) in seen:
            continue
        if has_parents:
            seen.add(id(node))
            yield node
            continue
        pending.append((node, True))
        parents: Sequence[Any] = node.parents
        pending.extend((parent, False) for parent in reversed(parents) if id(parent) not in seen)


def shape_of(dataset: Any) -> tuple[Any, ...]:
    """Return the classes of a pipeline: datasets opened by one node that agree share their numbers."""
    nodes = list(in_order(dataset))
    numbers = {id(node): number for number, node in enumerate(nodes)}
    return tuple(
        (type(node), tuple(numbers[id(parent)] for parent in node.parents)) for node in nodes
    )
