"""A worker keeps the memory that it frees, unless the user has settings of their own."""

from __future__ import annotations

import os
import resource
import subprocess
import sys

import numpy as np
import pytest

from grain.dataset.base import MapDataset
from grain.memory import malloc
from grain.options import MultiprocessingOptions


def page_faults_of_making_arrays(_: object) -> int:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(20):
        np.ones((500, 1000), np.float64)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before


def needs_glibc() -> None:
    if "glibc" not in (os.confstr("CS_GNU_LIBC_VERSION") or ""):
        pytest.skip("another libc than glibc")


def faults_in_a_worker() -> int:
    dataset = MapDataset.range(4).map(page_faults_of_making_arrays).to_iter_dataset()
    with iter(dataset.mp_prefetch(MultiprocessingOptions(num_workers=1))) as iterator:
        return min(iterator)


def test_a_worker_makes_arrays_again_in_the_memory_of_those_before(monkeypatch):
    needs_glibc()
    for name in malloc._USER_SETTINGS:
        monkeypatch.delenv(name, raising=False)
    # 4 MB are a thousand pages: twenty arrays would take twenty thousand faults.
    assert faults_in_a_worker() < 1000


def test_settings_of_the_user_are_left_alone(monkeypatch):
    needs_glibc()
    monkeypatch.setenv("MALLOC_MMAP_THRESHOLD_", "65536")
    assert not malloc.configure_malloc()
    assert faults_in_a_worker() > 1000


def test_without_the_means_nothing_happens():
    program = (
        "import ctypes\n"
        "def missing(name): raise OSError('no such library')\n"
        "ctypes.CDLL = missing\n"
        "from grain.memory.malloc import configure_malloc\n"
        "print(configure_malloc())\n"
    )
    environment = {k: v for k, v in os.environ.items() if k not in malloc._USER_SETTINGS}
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env=environment
    )
    assert done.stdout == "False\n", done.stderr
