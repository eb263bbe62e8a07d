"""How a worker's heap is kept: freed memory stays with the process and is used for the next element.

A worker makes and drops arrays of the same sizes again and again. By default glibc hands large ones
back to the system each time, and every new one begins with page faults and pages to be cleared,
which takes longer than the arithmetic on a typical image.
"""

from __future__ import annotations

import ctypes
import os

# Numbers of malloc.h; the largest array that glibc agrees to keep on the heap; and how much unused
# memory a worker keeps at the end of its heap before it gives some back.
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_LARGEST_ON_HEAP = 32 * 1024 * 1024
_KEPT = 256 * 1024 * 1024

_USERS_OWN = ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "GLIBC_TUNABLES")


def keep_freed_memory() -> bool:
    """Makes this process keep what it frees; says whether it will.

    Does nothing where the user has settings of their own, or where malloc is not glibc's.
    """
    if any(name in os.environ for name in _USERS_OWN):
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):
        return False
    on_heap: int = mallopt(_M_MMAP_THRESHOLD, _LARGEST_ON_HEAP)
    kept: int = mallopt(_M_TRIM_THRESHOLD, _KEPT)
    return bool(on_heap and kept)
