"""Processor time and instructions of this process and everything that it has started.

Unlike elapsed time, both hardly depend on what else the machine does. Instructions need a hardware
counter, which virtual machines and containers often lack.
"""

from __future__ import annotations

import ctypes
import dataclasses
import os
import platform
import resource
import struct
import time

from benchmarks.processes import descendants

_SYSCALLS = {"x86_64": 298, "aarch64": 241}
_ATTRIBUTE_BYTES = 128
# Count children, too, and neither the kernel nor a hypervisor.
_INHERIT, _EXCLUDE_KERNEL, _EXCLUDE_HYPERVISOR = 1 << 1, 1 << 5, 1 << 6

HARDWARE_INSTRUCTIONS = (0, 1)
SOFTWARE_TASK_CLOCK = (1, 1)


@dataclasses.dataclass(frozen=True)
class Cost:
    """What an amount of work took: seconds of processors, seconds elapsed, and instructions."""

    processor: float
    elapsed: float
    instructions: float | None = None

    def __sub__(self, earlier: Cost) -> Cost:
        instructions = None
        if self.instructions is not None and earlier.instructions is not None:
            instructions = self.instructions - earlier.instructions
        return Cost(
            self.processor - earlier.processor, self.elapsed - earlier.elapsed, instructions
        )

    def per(self, elements: float) -> Cost:
        """Return the cost of one of `elements` elements."""
        instructions = None if self.instructions is None else self.instructions / elements
        return Cost(self.processor / elements, self.elapsed / elements, instructions)


class Counter:
    """A counter of the kernel for this process and the threads and children it starts from now on.

    `read` returns None where the kernel or the machine has no such counter.
    """

    def __init__(self, event: tuple[int, int] = HARDWARE_INSTRUCTIONS) -> None:
        kind, config = event
        flags = _INHERIT | _EXCLUDE_KERNEL | _EXCLUDE_HYPERVISOR
        attribute = struct.pack("IIQQQQQ", kind, _ATTRIBUTE_BYTES, config, 0, 0, 0, flags)
        self._descriptor = -1
        number = _SYSCALLS.get(platform.machine())
        if platform.system() == "Linux" and number is not None:
            padded = ctypes.c_char_p(attribute.ljust(_ATTRIBUTE_BYTES, b"\0"))
            # perf_event_open(attribute, this process, every processor, no group, close on exec)
            self._descriptor = ctypes.CDLL(None).syscall(number, padded, 0, -1, -1, 1 << 3)

    def read(self) -> int | None:
        """Return the count so far, of live and of ended children, or None."""
        if self._descriptor < 0:
            return None
        return int(struct.unpack("Q", os.read(self._descriptor, 8))[0])

    def close(self) -> None:
        """Release the counter."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def processor_seconds() -> float:
    """Return the processor time of this process, its ended children and its live descendants."""
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = time.process_time() + ended.ru_utime + ended.ru_stime
    for process in descendants():
        try:
            # The clock of another process, as clock_getcpuclockid(3) returns it.
            seconds += time.clock_gettime((~process << 3) | 2)
        except OSError:
            continue
    return seconds


def read(counter: Counter) -> Cost:
    """Return the cost of everything so far; the difference of two readings is that of work."""
    return Cost(processor_seconds(), time.perf_counter(), counter.read())
