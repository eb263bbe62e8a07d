"""The names of `grain.experimental` under `grain.python.experimental`, for existing code."""

from __future__ import annotations

from grain.experimental import *  # noqa: F403
from grain.experimental import __dir__, __getattr__  # noqa: F401
