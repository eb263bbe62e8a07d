"""Description of the machine, without its name."""

from __future__ import annotations

import os
import pathlib
import platform


def describe() -> dict[str, str]:
    """Return the machine's properties, and its load before the measurements."""
    return {
        "processor": processor(),
        "cores": str(len(os.sched_getaffinity(0))),
        "memory": memory(),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "load before the run": f"{os.getloadavg()[0]:.2f}",
    }


def field(file: str, name: str) -> str | None:
    """Return the value of a line `name : value` of a system file."""
    path = pathlib.Path(file)
    for line in path.read_text().splitlines() if path.exists() else ():
        key, _, value = line.partition(":")
        if key.strip() == name:
            return value.strip()
    return None


def processor() -> str:
    """Return the processor's name."""
    return field("/proc/cpuinfo", "model name") or platform.processor() or "unknown"


def memory() -> str:
    """Return all memory, in GiB."""
    total = field("/proc/meminfo", "MemTotal")
    return f"{int(total.split()[0]) / 2**20:.0f} GiB" if total else "unknown"
