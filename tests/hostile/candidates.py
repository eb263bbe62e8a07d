"""Entry points of the hostile plugins, as if installed; imports none of them."""

from __future__ import annotations

import functools

from grain.plugins.discovery import Candidate
from grain.plugins.metadata import load_object

PLUGINS = f"{__package__}.plugins"


def candidate(module: str, requires: tuple[str, ...] = ("grain-core>=1,<2",)) -> Candidate:
    name = f"{PLUGINS}.{module}"
    return Candidate(
        name="hostile",
        module=name,
        load=functools.partial(load_object, name),
        distribution="grain-hostile",
        version="1.0",
        requires=requires,
    )
