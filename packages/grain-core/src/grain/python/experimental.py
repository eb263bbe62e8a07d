"""The names of `grain.python.experimental`: the same objects as in `grain.experimental`."""

from __future__ import annotations

from typing import Any

from grain import experimental
from grain.experimental import *  # noqa: F403


def __getattr__(name: str) -> Any:
    return getattr(experimental, name)


def __dir__() -> list[str]:
    return dir(experimental)
