"""Saving and restoring iterators, with or without Orbax.

`CheckpointSave` and `CheckpointRestore` need Orbax, and are imported on first use.
"""

from __future__ import annotations

import contextlib
from importlib.util import find_spec
from typing import Any

from grain._lazy import lazy_names
from grain.checkpoint.after_import import import_after
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
with contextlib.suppress(ValueError):  # A module without a spec replaces it.
    if find_spec("orbax"):
        __all__ += ["CheckpointRestore", "CheckpointSave"]

_lazy_getattr, __dir__ = lazy_names(
    __name__, {"grain.checkpoint.orbax_args": ["CheckpointRestore", "CheckpointSave"]}
)
# Orbax looks up a handler's arguments when a manager is created, perhaps before they are used here.
import_after("orbax.checkpoint", "grain.checkpoint.orbax_args")


def __getattr__(name: str) -> Any:
    if name not in ("CheckpointRestore", "CheckpointSave"):
        return _lazy_getattr(name)
    try:
        return _lazy_getattr(name)
    except Exception as error:  # Incompatible versions of Orbax fail in many ways.
        raise AttributeError(
            f"grain.checkpoint.{name} needs orbax-checkpoint, which cannot be imported ({error}). "
            "Install it with `pip install orbax-checkpoint`."
        ) from error
