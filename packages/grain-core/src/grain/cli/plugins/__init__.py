"""`grain plugins`: list, check and create plugins."""

from __future__ import annotations

from grain.cli.command import Command
from grain.cli.plugins import check, listing, new

COMMAND = Command(
    name="plugins",
    summary="List and check the installed plugins, or create a new one.",
    children=(listing.COMMAND, check.COMMAND, new.COMMAND),
)
