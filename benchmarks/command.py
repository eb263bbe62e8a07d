"""What the commands of this folder share: where the repository is, and lists of names."""

from __future__ import annotations

import pathlib
from collections.abc import Sequence

ROOT = pathlib.Path(__file__).parent.parent


def names(text: str) -> list[str]:
    """Split a list at commas."""
    return [name.strip() for name in text.split(",") if name.strip()]


def select(selected: list[str] | None, known: Sequence[str], what: str) -> list[str]:
    """Return the selected names in the usual order; all names without a selection."""
    unknown = set(selected or ()) - set(known)
    if unknown:
        raise SystemExit(
            f"There is no {what} {', '.join(sorted(unknown))}. Choose from: {', '.join(known)}."
        )
    return [name for name in known if selected is None or name in selected]
