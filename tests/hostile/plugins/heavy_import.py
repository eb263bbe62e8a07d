"""Plugin whose listing imports a dependency."""

from __future__ import annotations

import pytest

from .metadata import CASE, Metadata

heavy = Metadata(CASE)

assert pytest
