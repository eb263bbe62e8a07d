"""Messages between the consumer's pool and its gateway, and the replies of actors."""

from __future__ import annotations

import dataclasses
import enum
from typing import Any, NamedTuple

from grain.execution.processes.error_report import ErrorReport
from grain_ray.loans import Handover
from grain_ray.payload import Payload


class TaskOutcome(enum.IntEnum):
    """How a task ended."""

    VALUE = 0
    ERROR = 1
    LOST = 2


class Reply(NamedTuple):
    """The end of a task.

    Attributes:
        outcome: How it ended.
        content: A `Payload`, an `ErrorReport` as a tuple, or a `ActorLoss` as a tuple.
        capacity: Number of actors that are ready, when the gateway sent the reply.
        handover: The arrays of the payload that an actor wrote into slots of the gateway.
    """

    outcome: TaskOutcome
    content: Any
    capacity: int = 0
    handover: Handover | None = None


class ActorLoss(NamedTuple):
    """The loss of the actor that had a task.

    Attributes:
        worker: Index of the actor.
        cause: What is known about the loss.
        started: Whether the actor was computing the task.
    """

    worker: int
    cause: str
    started: bool


def value_reply(payload: Payload, handover: Handover | None = None) -> Reply:
    """Return the reply with a result."""
    return Reply(TaskOutcome.VALUE, payload, handover=handover)


def error_reply(report: ErrorReport) -> Reply:
    """Return the reply with an error."""
    return Reply(TaskOutcome.ERROR, tuple(report))


def loss_reply(worker: int, cause: str, started: bool) -> Reply:
    """Return the reply for a task whose actor was lost."""
    return Reply(TaskOutcome.LOST, tuple(ActorLoss(worker, cause, started)))


@dataclasses.dataclass(frozen=True)
class Submit:
    """Compute a task; the gateway replies when it is done."""

    task: Payload
    affinity: int | None = None


@dataclasses.dataclass(frozen=True)
class Definition:
    """A part of the pipeline for all actors, or for the actor of an affinity."""

    number: int
    part: bytes
    affinity: int | None = None


@dataclasses.dataclass(frozen=True)
class Resize:
    """Change the number of actors."""

    count: int


@dataclasses.dataclass(frozen=True)
class Describe:
    """List the actors; the reply comes when at least one is ready."""


@dataclasses.dataclass(frozen=True)
class ActorInfo:
    """One actor, for diagnosis.

    Attributes:
        index: Its index.
        host: The name of its machine.
        pid: Its process id there.
        tasks: Number of tasks that it has.
    """

    index: int
    host: str
    pid: int
    tasks: int
