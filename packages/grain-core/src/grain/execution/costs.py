"""The cost model of an executor: what a session needs to know to size and pace its tasks."""

from __future__ import annotations

import dataclasses

from grain._policy import Policy


@dataclasses.dataclass(frozen=True, kw_only=True)
class Costs:
    """Costs of tasks on the workers of one executor; times are in seconds, sizes in bytes.

    Attributes:
        block_seconds: Preferred duration of a task.
        message_seconds: Cost of a task there and back, whatever it carries.
        element_seconds: Cost of an element there and back.
        byte_seconds: Cost of a byte there and back.
        max_bytes: Budget for results that are computed and not yet taken.
    """

    block_seconds: float
    message_seconds: float
    element_seconds: float
    byte_seconds: float
    max_bytes: int

    @classmethod
    def of_local_processes(cls, policy: Policy, *, max_bytes: int) -> Costs:
        """Return the costs of worker processes on this machine."""
        return cls(
            block_seconds=policy.block_seconds,
            message_seconds=policy.message_seconds,
            element_seconds=policy.element_seconds,
            byte_seconds=policy.byte_seconds,
            max_bytes=max_bytes,
        )
