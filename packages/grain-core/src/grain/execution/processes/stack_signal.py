"""The signal at which a worker reports the stacks of its threads; one that programs hardly use."""

from __future__ import annotations

import signal

STACK_SIGNAL: int | None = signal.SIGRTMIN + 7 if hasattr(signal, "SIGRTMIN") else None
