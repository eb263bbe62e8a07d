"""Start of Python interpreters that become workers, or the process that forks workers.

They receive the parent's `sys.path` and flags and never run the user's `__main__`.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence

from grain._config import config

# `sys.path` must be complete before the first import, so this uses builtin modules only. Imported objects
# stay alive: garbage collection during the imports would take up to a tenth of the start-up time.
_BOOTSTRAP = (
    "import gc, marshal, os, sys;"
    "gc.disable();"
    "sys.path[:] = marshal.loads(os.pread(int(sys.argv[2]), int(sys.argv[3]), 0))[0];"
    "from grain.execution.processes.{module} import main;"
    "main(*[int(word) for word in sys.argv[2:]])"
)

# Accelerators belong to the training process; a worker that initialised one would take its memory.
_NO_DEVICES = {
    "JAX_PLATFORMS": "cpu",
    "CUDA_VISIBLE_DEVICES": "",
    "HIP_VISIBLE_DEVICES": "",
    "ROCR_VISIBLE_DEVICES": "",
}
# OpenBLAS threads spin while they wait, from the moment numpy is imported, which makes the start of two
# workers on two processors 1.5 times slower. With this timeout they sleep.
_NO_SPINNING = {"OPENBLAS_THREAD_TIMEOUT": "4"}


def start_python(
    module: str, setup: tuple[int, int], words: Sequence[int], fds: tuple[int, ...]
) -> subprocess.Popen[bytes]:
    """Start an interpreter that calls `main` of a module of this package.

    Args:
        module: The module; its `main` receives the numbers of `setup` and `words`.
        setup: Descriptor of a file whose first section starts with `sys.path`, and its length.
        words: Further arguments.
        fds: Descriptors that the process inherits, in addition to the file of the setup.
    """
    with _sigint_blocked():
        return subprocess.Popen(
            [
                sys.executable,
                *interpreter_flags(),
                "-c",
                _BOOTSTRAP.format(module=module),
                f"grain-{module}",
                *map(str, (*setup, *words)),
            ],
            stdin=subprocess.DEVNULL,
            stdout=None if is_open(1) else subprocess.DEVNULL,
            stderr=None if is_open(2) else subprocess.DEVNULL,
            pass_fds=(setup[0], *fds),
            env=worker_environment(),
        )


def interpreter_flags() -> list[str]:
    """Return the flags of this interpreter: -W, -X, -O and similar."""
    # multiprocessing uses the same function.
    flags: list[str] = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]
    return flags


def worker_environment() -> dict[str, str]:
    """Return the environment of workers: that of this process, without accelerators."""
    environment = {**_NO_SPINNING, **os.environ}
    if not config.worker_keep_devices:
        environment.update(_NO_DEVICES)
    return environment


def require_interpreter() -> None:
    """Raise an error that says what to do if worker processes cannot be started here."""
    if os.name != "posix":
        raise RuntimeError(
            f"Worker processes need a POSIX system, and this is {sys.platform}. Use threads: "
            "`to_iter_dataset(grain.ReadOptions(num_threads=...))`."
        )
    if not sys.executable:
        raise RuntimeError(
            "Worker processes need a Python interpreter, and sys.executable is empty. "
            "Set it to the path of one."
        )


@contextlib.contextmanager
def standard_descriptors_taken() -> Iterator[None]:
    """Keep descriptors opened in the `with` block off the numbers 0 to 2, which a program may have closed.

    A worker replaces its standard input, and would lose what it inherits under that number.
    """
    taken: list[int] = []
    try:
        while not taken or taken[-1] <= 2:
            taken.append(os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC))
        yield
    finally:
        for fd in taken:
            os.close(fd)


@contextlib.contextmanager
def _sigint_blocked() -> Iterator[None]:
    """Block SIGINT for processes started in the `with` block, until they set up their handling."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def is_open(fd: int) -> bool:
    """Return whether a descriptor is open."""
    try:
        os.fstat(fd)
    except OSError:
        return False
    return True
