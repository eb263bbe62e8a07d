"""Messages between a pool and the process that forks workers: `(number, kind, content)` and descriptors.

A reply is `(number, content)`. `IMPORT` has no reply.
"""

from __future__ import annotations

FORK, STATUS, IMPORT = 1, 2, 3
RUNNING, UNKNOWN = "running", "unknown"
MAX_MESSAGE = 64 << 10
MAX_DESCRIPTORS = 8
