"""The registry of facts: named builders whose behaviour is recorded once and compared in every test run.

A builder is an ordinary function that uses public API only. Three decorators register it:

    @stream(limit=20, steps=(0, 3))  a dataset or loader: elements, states, resuming from them
    @value                           any value: lengths, reprs, single reads
    @error                           a call that must fail: the type, and a message if it is good

The fact's name is the function's name. With ``over={suffix: arguments}`` one builder registers one
fact for each suffix. ``needs`` names the members of `grain.experimental` that the builder uses.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable, Mapping, Sequence
from typing import Any


class Kind(enum.Enum):
    """Which behaviour of a fact's builder is observed."""

    STREAM = "stream"
    VALUE = "value"
    ERROR = "error"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Fact:
    """One named builder, and how to observe it."""

    name: str
    area: str
    kind: Kind
    build: Callable[[], Any]
    limit: int
    steps: tuple[int, ...]
    needs: tuple[str, ...]
    compare_message: bool


FACTS: dict[str, Fact] = {}


def _enter(
    kind: Kind,
    *,
    limit: int = 0,
    steps: Sequence[int] = (),
    needs: Sequence[str] | str = (),
    over: Mapping[str, tuple[Any, ...]] | None = None,
    compare_message: bool = True,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def register(builder: Callable[..., Any]) -> Callable[..., Any]:
        variants = (
            {"": ()} if over is None else {f"_{suffix}": args for suffix, args in over.items()}
        )
        for suffix, args in variants.items():
            name = builder.__name__ + suffix
            if name in FACTS:
                raise ValueError(f"two facts are called {name!r}; rename one of them")
            FACTS[name] = Fact(
                name=name,
                area=builder.__module__.rpartition(".")[2],
                kind=kind,
                build=lambda args=args: builder(*args),
                limit=limit,
                steps=tuple(steps),
                needs=(needs,) if isinstance(needs, str) else tuple(needs),
                compare_message=compare_message,
            )
        return builder

    return register


def stream(
    *,
    limit: int = 200,
    steps: Sequence[int] = (0, 1, 5),
    needs: Sequence[str] | str = (),
    over: Mapping[str, tuple[Any, ...]] | None = None,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register a builder of an iterable: up to `limit` elements, a state at each of `steps`."""
    return _enter(Kind.STREAM, limit=limit, steps=steps, needs=needs, over=over)


def value(
    builder: Callable[..., Any] | None = None,
    *,
    needs: Sequence[str] | str = (),
    over: Mapping[str, tuple[Any, ...]] | None = None,
) -> Callable[..., Any]:
    """Register a builder whose result is itself the fact."""
    register = _enter(Kind.VALUE, needs=needs, over=over)
    return register if builder is None else register(builder)


def error(
    builder: Callable[..., Any] | None = None,
    *,
    type_only: bool = False,
    needs: Sequence[str] | str = (),
    over: Mapping[str, tuple[Any, ...]] | None = None,
) -> Callable[..., Any]:
    """Register a builder that must raise; `type_only` where the reference's message is not useful."""
    register = _enter(Kind.ERROR, needs=needs, over=over, compare_message=not type_only)
    return register if builder is None else register(builder)
