"""The names of `grain.experimental`, for existing code."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grain.experimental import *  # noqa: F403
from grain.experimental import __all__ as __all__

if not TYPE_CHECKING:  # With it, a type checker would accept every name.
    from grain.experimental import __dir__ as __dir__
    from grain.experimental import __getattr__ as __getattr__
