"""Heap configuration of worker processes: freed memory stays with the process for the next element.

A worker allocates and frees arrays of the same sizes again and again. By default glibc returns large ones
to the system each time, and every new one starts with page faults and pages to be cleared, which takes
longer than the arithmetic on a typical image.
"""

from __future__ import annotations

import ctypes
import os

# Parameter numbers of malloc.h, the largest array that glibc accepts on the heap, and how much unused memory
# a worker keeps at the end of its heap before it returns some.
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_LARGEST_ON_HEAP = 32 * 1024 * 1024
_KEPT = 256 * 1024 * 1024

_USER_SETTINGS = ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "GLIBC_TUNABLES")


def configure_malloc() -> bool:
    """Make this process keep the memory it frees; return whether it will.

    User settings of malloc in the environment take precedence, and a malloc other than glibc's is left alone.
    """
    if any(name in os.environ for name in _USER_SETTINGS):
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):
        return False
    on_heap: int = mallopt(_M_MMAP_THRESHOLD, _LARGEST_ON_HEAP)
    kept: int = mallopt(_M_TRIM_THRESHOLD, _KEPT)
    return bool(on_heap and kept)
