"""Orbax's arguments for saving and restoring an iterator."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any

import orbax.checkpoint as ocp

from grain.checkpoint.handler import CheckpointHandler


@ocp.args.register_with_handler(CheckpointHandler, for_save=True)
@dataclasses.dataclass
class CheckpointSave(ocp.args.CheckpointArgs):
    """Saves the state of `item`, an iterator."""

    item: Any


@ocp.args.register_with_handler(CheckpointHandler, for_restore=True)
@dataclasses.dataclass
class CheckpointRestore(ocp.args.CheckpointArgs):
    """Restores the state of `item`, an iterator.

    `allow` names what may differ in the pipeline that was saved; see `grain.checkpoint.allow_changes`.
    """

    item: Any
    allow: str | Iterable[str] = ()
