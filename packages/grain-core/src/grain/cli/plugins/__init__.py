"""`grain plugins`: which plugins there are, whether they are in order, and how to begin one."""

from __future__ import annotations

from grain.cli.command import Command
from grain.cli.plugins import check, listing, new

COMMAND = Command(
    name="plugins",
    summary="List and check the installed plugins, or write a new one.",
    children=(listing.COMMAND, check.COMMAND, new.COMMAND),
)
