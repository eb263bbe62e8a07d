"""Comparing the pipeline that saved a state with the one that restores it."""

from __future__ import annotations

import contextlib
import contextvars
import warnings
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

from grain.dataset.fingerprint.lines import KINDS, Line

T = TypeVar("T")


class ChangedPipelineError(ValueError):
    """A state was saved by a pipeline that differs from the one it is restored to.

    Attributes:
      kinds: what differs, by the names with which it can be allowed.
    """

    def __init__(self, message: str, kinds: Sequence[str] = ()):
        super().__init__(message)
        self.kinds = tuple(kinds)


class ChangedMixtureWarning(UserWarning):
    """A state was restored to a mixture whose named components or weights have changed."""


# Named components go on where each of them stood, so a mixture of them may change on the way.
_HARMLESS = frozenset({"component", "weights"})

_allowed: contextvars.ContextVar[frozenset[str]] = contextvars.ContextVar(
    "grain_allowed_changes", default=frozenset()
)


def allowed_changes() -> frozenset[str]:
    """The kinds of changes that are allowed here."""
    return _allowed.get()


@contextlib.contextmanager
def allow_changes(*kinds: str) -> Iterator[None]:
    """Lets states be restored to a pipeline that was changed on purpose.

    Args:
      *kinds: what may differ: "source", "file", "sampler", "shard", "operation", "component" or
        "weights".

    The position is taken over as it is: after a change of the order or of the records, elements may
    come twice or never.

    >>> import grain
    >>> def loader(seed):
    ...     return iter(grain.load(range(9), shuffle=True, seed=seed))
    >>> with allow_changes("sampler"):
    ...     loader(seed=2).set_state(loader(seed=1).get_state())
    """
    token = _allowed.set(_allowed.get() | _checked_kinds(kinds))
    try:
        yield
    finally:
        _allowed.reset(token)


def _checked_kinds(kinds: Iterable[str]) -> frozenset[str]:
    wanted = frozenset(kinds)
    unknown = sorted(map(str, wanted - set(KINDS)))
    if unknown:
        raise ValueError(f"Changes that can be allowed are {', '.join(KINDS)}; got {unknown}.")
    return wanted


def allowing(allow: str | Iterable[str]) -> contextlib.AbstractContextManager[None]:
    """What an argument `allow` means: the name of a change, or several."""
    return allow_changes(*((allow,) if isinstance(allow, str) else allow))


def check_unchanged(saved: Sequence[Line], present: Sequence[Line]) -> None:
    """Raises, or warns, when two descriptions differ in more than is allowed."""
    if list(saved) == list(present):
        return
    changed = _changed_kinds(saved, present) - allowed_changes()
    if not changed:
        return
    kinds = [kind for kind in KINDS if kind in changed]
    message = (
        "The checkpoint was saved by a pipeline that differs from this one (-: in the checkpoint, "
        f"+: here):\n{difference(map(str, saved), map(str, present))}\n"
    )
    if changed <= _HARMLESS:
        warn_of_mixture(message, kinds)
        return
    raise ChangedPipelineError(
        f"{message}Restore it with the pipeline that saved it. If the change is deliberate, allow it "
        f"by name, with {_as_argument(kinds)} or in `with grain.checkpoint.allow_changes(...)`: the "
        "position is then taken over as it is, and elements may come twice or never.",
        kinds,
    )


def warn_of_mixture(message: str, kinds: Sequence[str]) -> None:
    """Says that a mixture of named components has changed."""
    warnings.warn(
        f"{message}Each component goes on where it stood; new ones start at their beginning. "
        f"To say that this is meant, restore with {_as_argument(kinds)}.",
        ChangedMixtureWarning,
        stacklevel=2,
    )


def difference(saved: Iterable[str], present: Iterable[str]) -> str:
    """Two lists of lines as one: `-` only in the first, `+` only in the second.

    >>> print(difference(["a", "b"], ["a", "c"]))
        a
      - b
      + c
    """
    lines: list[str] = []
    for mark, stretch in _stretches(list(saved), list(present)):
        shown = _around(stretch) if mark == " " else stretch
        lines += [f"  {mark} {line}" for line in shown]
    return "\n".join(lines)


def _stretches(before: Sequence[T], after: Sequence[T]) -> Iterator[tuple[str, list[T]]]:
    """What both have (" "), what only the first has ("-") and only the second ("+"), in order.

    As few lines as can be are said to have changed. (It is what difflib does, whose import would be a
    good part of that of `import grain`.)
    """
    # shared[i][j]: how many lines before[i:] and after[j:] can have in common.
    shared = [[0] * (len(after) + 1) for _ in range(len(before) + 1)]
    for i in reversed(range(len(before))):
        for j in reversed(range(len(after))):
            shared[i][j] = (
                shared[i + 1][j + 1] + 1
                if before[i] == after[j]
                else max(shared[i + 1][j], shared[i][j + 1])
            )
    i = j = 0
    while i < len(before) or j < len(after):
        same, gone, come = [], [], []
        while i < len(before) and j < len(after) and before[i] == after[j]:
            same.append(before[i])
            i, j = i + 1, j + 1
        while (i < len(before) or j < len(after)) and not (
            i < len(before) and j < len(after) and before[i] == after[j]
        ):
            if j == len(after) or (i < len(before) and shared[i + 1][j] >= shared[i][j + 1]):
                gone.append(before[i])
                i += 1
            else:
                come.append(after[j])
                j += 1
        yield from ((" ", same), ("-", gone), ("+", come))


def _around(lines: list[str]) -> list[str]:
    """A stretch that did not change, without its middle if it is long."""
    return lines if len(lines) <= 7 else [*lines[:3], f"… {len(lines) - 6} lines", *lines[-3:]]


def _changed_kinds(saved: Sequence[Line], present: Sequence[Line]) -> set[str]:
    kinds: set[str] = set()
    for mark, lines in _stretches(saved, present):
        if mark != " ":
            kinds |= {_kind_in(line, present if mark == "-" else saved) for line in lines}
    return kinds


def _kind_in(line: Line, others: Sequence[Line]) -> str:
    """The kind of a line's change: that of the component, if all of it came or went."""
    for depth in range(1, len(line.path) + 1):
        path = line.path[:depth]
        if not any(other.path[:depth] == path for other in others):
            return "component"
    return line.kind


def _as_argument(kinds: Sequence[str]) -> str:
    names = ", ".join(f'"{kind}"' for kind in kinds)
    return f"`allow=({names}{',' if len(kinds) == 1 else ''})`"
