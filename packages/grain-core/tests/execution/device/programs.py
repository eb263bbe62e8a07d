"""Running programs that need a JAX of their own: other devices, or several processes."""

from __future__ import annotations

import os
import pathlib
import socket
import subprocess
import sys

HERE = pathlib.Path(__file__).parent
ROOT = HERE.parents[3]


def environment(devices: int) -> dict[str, str]:
    """The environment of a process that sees this many devices, all of them the CPU."""
    return os.environ | {
        "JAX_PLATFORMS": "cpu",
        "XLA_FLAGS": f"--xla_force_host_platform_device_count={devices}",
    }


def run_tests_on(devices: int, file: str) -> subprocess.CompletedProcess[str]:
    """Runs the tests of a file, which pytest does not collect by itself, on many devices."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(HERE / file)]
    return subprocess.run(
        command, cwd=ROOT, env=environment(devices), capture_output=True, text=True, timeout=110
    )


def run_alone(program: str) -> subprocess.CompletedProcess[str]:
    """Runs a program on one device; warnings are errors."""
    command = [sys.executable, "-W", "error", str(HERE / program)]
    return subprocess.run(command, env=environment(1), capture_output=True, text=True, timeout=110)


def run_job(program: str, processes: int, devices: int) -> list[str]:
    """What each process of a `jax.distributed` job wrote to stdout; all of them must end well."""
    for _ in range(3):
        codes, said = _try_job(program, processes, devices)
        # Another program may take the port between its choice and its use.
        if not any("already in use" in error for _, error in said):
            break
    assert codes == [0] * processes, said
    return [out for out, _ in said]


def _try_job(
    program: str, processes: int, devices: int
) -> tuple[list[int | None], list[tuple[str, str]]]:
    with socket.socket() as probe:
        probe.bind(("localhost", 0))
        address = f"localhost:{probe.getsockname()[1]}"
    running = [
        subprocess.Popen(
            [sys.executable, str(HERE / program), address, str(processes), str(number)],
            env=environment(devices),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for number in range(processes)
    ]
    try:
        said = [process.communicate(timeout=110) for process in running]
    finally:
        for process in running:
            process.kill()
            process.wait()
    return [process.returncode for process in running], said
