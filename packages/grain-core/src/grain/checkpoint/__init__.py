"""Saving and restoring iterators with Orbax.

`CheckpointSave` and `CheckpointRestore` need Orbax and are made when they are first asked for.
"""

from __future__ import annotations

import contextlib
from importlib.util import find_spec
from typing import Any

from grain.checkpoint.handler import CheckpointHandler
from grain.dataset.fingerprint.changes import (
    ChangedMixtureWarning,
    ChangedPipelineError,
    allow_changes,
)

__all__ = [
    "ChangedMixtureWarning",
    "ChangedPipelineError",
    "CheckpointHandler",
    "allow_changes",
]
with contextlib.suppress(ValueError):  # Somebody put a module of their own in its place.
    if find_spec("orbax"):
        __all__ += ["CheckpointRestore", "CheckpointSave"]


def __getattr__(name: str) -> Any:
    if name not in ("CheckpointRestore", "CheckpointSave"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        from grain.checkpoint import orbax_args
    except Exception as error:  # Versions that do not fit fail in ways of their own.
        raise AttributeError(
            f"grain.checkpoint.{name} needs orbax-checkpoint, which cannot be imported ({error}). "
            'Install it with `pip install "grain-core[orbax]>=1,<2"`.'
        ) from error
    return getattr(orbax_args, name)
