"""The actor that computes tasks: the counterpart of a local worker process.

It has no restarts and no retries of its own. Every method returns a reply, also for an error of the user's
code, so that an exception of a call always means that the actor or its result was lost.
"""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Callable
from typing import Any

from grain.execution.processes import array_pickling
from grain.execution.processes.bootstrap_guard import set_in_worker
from grain.execution.processes.error_report import ErrorReport, report
from grain.memory.allocation import install_allocator
from grain.memory.malloc import configure_malloc
from grain_ray.loans import Handover, Invitation, SlotRegion
from grain_ray.messages import Reply, error_reply, value_reply
from grain_ray.payload import Payload, own, pack, unpack
from grain_ray.slot_borrower import SlotBorrower


class WorkerActor:
    """A job in another process, possibly on another machine.

    Args:
        index: Index of the worker.
        count: Number of workers.
        path: `sys.path` of the consumer; entries that exist here and are not on the path are appended.
        environment: Variables that are set before any code of the user is imported.
    """

    def __init__(self, index: int, count: int, path: list[str], environment: dict[str, str]):
        self._index = index
        self._count = count
        self._where = f"worker {index} of {count}"
        self._compute: Callable[[Any], Any] | None = None
        self._failed: dict[int, ErrorReport] = {}
        self._dump = array_pickling.Dumper()
        self._borrower: SlotBorrower | None = None
        os.environ.update(environment)
        sys.path += [entry for entry in path if entry not in sys.path and os.path.isdir(entry)]

    def load(self, job: Payload) -> Reply:
        """Load the job; reply with the process id, host and node, or with the error of the user's code."""
        where = "unpickling the job"
        try:
            configure_malloc()
            # Objects of the cluster's store are read-only, and a job may write to its arrays.
            loaded = unpack(own(job))
            where = "starting the job"
            set_in_worker()
            self._compute = loaded.start(self._index, self._count)
        except BaseException as error:
            return error_reply(report(error, where=f"{self._where}, {where}"))
        return value_reply(pack(self._dump((os.getpid(), socket.gethostname(), node_address()))))

    def ping(self) -> None:
        """Return, which shows that the actor is alive."""

    def run(self, task: Payload) -> Reply:
        """Compute a task."""
        compute = self._compute
        assert compute is not None, "the fleet calls `load` first"
        try:
            arguments = unpack(own(task))
            failed = self._failed.get(arguments[0]) if self._failed else None
            if failed is not None:
                return error_reply(failed)
            pickled = self._dump(compute(arguments))
            if self._borrower is None:
                return value_reply(pack(pickled))
            return _placed_reply(pickled, self._borrower)
        except BaseException as error:
            if self._borrower is not None:
                self._borrower.forget()
            return error_reply(report(error, where=self._where))

    def borrow(self, address: str, token: str) -> None:
        """Write results into slots of the gateway from now on, if it is on this machine."""
        try:
            borrower = SlotBorrower(Invitation(address, token))
        except (OSError, EOFError):
            return  # Another machine, or another namespace: results travel through Ray.
        self._borrower = borrower
        self._dump = array_pickling.Dumper(borrower.allocate)
        install_allocator(borrower.allocate)

    def define(self, number: int, part: bytes) -> None:
        """Add a part of the pipeline; its error is that of every task on it."""
        assert self._compute is not None, "the fleet calls `load` first"
        try:
            self._compute((number, "define", part))
        except BaseException as error:
            self._failed[number] = report(error, where=f"{self._where}, defining a part")

    def release(self, number: int) -> None:
        """Remove a part of the pipeline."""
        assert self._compute is not None, "the fleet calls `load` first"
        self._failed.pop(number, None)
        try:
            self._compute((number, "release"))
        except Exception:
            return  # The part is gone; an error of its `close` has no consumer.


def _placed_reply(pickled: array_pickling.Pickled, borrower: SlotBorrower) -> Reply:
    """Return the reply with a result whose large arrays are in slots, as far as there are some."""
    regions: list[SlotRegion] = []

    def place(number: int, buffer: memoryview) -> bool:
        region = borrower.place(number, buffer)
        if region is not None:
            regions.append(region)
        return region is not None

    payload = pack(pickled, place)
    if not regions:
        return value_reply(payload)
    # Only now is nothing left of the result here but what the user's code keeps: the slots are returned.
    pickled.buffers.clear()
    number = borrower.hand_over()
    if number is not None:
        return value_reply(payload, Handover(number, regions))
    for region in regions:
        payload.arrays[region.array] = borrower.memory_of(region)
    return value_reply(payload)


def node_address() -> str:
    """Return the address where this node of Ray accepts connections; "" where that is not known."""
    ray = sys.modules.get("ray")
    if ray is None or not ray.is_initialized():
        return ""
    here = ray.get_runtime_context().get_node_id()
    for node in ray.nodes():
        if node["NodeID"] == here:
            return f"{node['NodeManagerAddress']}:{node['NodeManagerPort']}"
    return ""
