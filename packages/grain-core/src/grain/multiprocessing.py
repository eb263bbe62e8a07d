"""Arrays in named shared memory, for programs that pass arrays between their own processes.

The workers of this library do not use them: their results travel in memory without a name.
"""

from __future__ import annotations

import dataclasses
import math
import mmap
import threading
from collections.abc import Iterable
from concurrent.futures import Executor, ThreadPoolExecutor
from multiprocessing.shared_memory import SharedMemory
from typing import Any, ClassVar

import numpy as np
from numpy.typing import DTypeLike, NDArray

from grain.options import MultiprocessingOptions

__all__ = ["MultiprocessingOptions", "SharedMemoryArray", "SharedMemoryArrayMetadata"]


def __dir__() -> list[str]:
    return [*__all__]


@dataclasses.dataclass(frozen=True, slots=True)
class SharedMemoryArrayMetadata:
    """The data with which another process opens a `SharedMemoryArray`.

    Attributes:
        name: Name of the shared memory.
        shape: Shape of the array.
        dtype: Type of its elements.
    """

    name: str
    shape: Iterable[int]
    dtype: DTypeLike

    def close_and_unlink_shm(self) -> None:
        """Remove the shared memory, once no process will open it any more.

        Open arrays stay valid. Raise FileNotFoundError if the memory is gone.

        >>> metadata = SharedMemoryArray((2, 3), np.int32).metadata
        >>> metadata.close_and_unlink_shm()
        """
        memory = SharedMemory(name=self.name)
        memory.close()
        memory.unlink()


class SharedMemoryArray(np.ndarray[Any, Any]):
    """A numpy array over named shared memory, which is passed to another process without a copy.

    Pickling it, or sending its `metadata` to be opened with `from_metadata`, passes on the memory itself.
    Memory with a name exists until it is removed: the last process to use the array must call
    `unlink_on_del`.

    >>> array = SharedMemoryArray((2, 3), np.int32)
    >>> array[:] = 7
    >>> other = SharedMemoryArray.from_metadata(array.metadata)  # in another process
    >>> other.unlink_on_del()
    >>> int(other.sum())
    42
    """

    shm: SharedMemory | None
    _unlink_on_del: bool

    _memory_type: ClassVar[type] = mmap.mmap
    _lock: ClassVar[threading.Lock] = threading.Lock()
    _del_thread_pool: ClassVar[Executor | None] = None
    _outstanding_del_requests: ClassVar[threading.Semaphore | None] = None

    def __new__(cls, shape: Iterable[int], dtype: DTypeLike = float) -> SharedMemoryArray:
        """Create shared memory and an array of zeros over all of it."""
        shape = tuple(shape)
        dtype = np.dtype(dtype)
        memory = SharedMemory(create=True, size=math.prod(shape) * dtype.itemsize)
        return cls.from_shared_memory(memory, shape, dtype)

    @classmethod
    def from_shared_memory(
        cls, shm: SharedMemory, shape: Any, dtype: DTypeLike
    ) -> SharedMemoryArray:
        """Return an array over the start of `shm`, which must be large enough."""
        return _over(cls, shm, shape, dtype)

    @classmethod
    def from_metadata(cls, metadata: SharedMemoryArrayMetadata) -> SharedMemoryArray:
        """Open an array that another process has created."""
        return cls.from_shared_memory(
            SharedMemory(name=metadata.name), metadata.shape, metadata.dtype
        )

    @property
    def metadata(self) -> SharedMemoryArrayMetadata:
        """The data with which another process opens this array; only for arrays in shared memory."""
        if self.shm is None:
            raise AssertionError(
                "This array is a copy outside of shared memory and has no metadata. Use the metadata of "
                "the original array."
            )
        return SharedMemoryArrayMetadata(self.shm.name, self.shape, self.dtype)

    def unlink_on_del(self) -> None:
        """Remove the shared memory when this object is collected; open arrays stay valid."""
        self._unlink_on_del = True

    @classmethod
    def enable_async_del(cls, num_threads: int = 1, max_outstanding_requests: int = 50) -> None:
        """Close and remove arrays in background threads from now on.

        Args:
            num_threads: Number of threads.
            max_outstanding_requests: Most arrays that wait for the threads, each with its memory and an
                open file; deleting further arrays blocks.
        """
        with cls._lock:
            if cls._del_thread_pool is None:
                cls._outstanding_del_requests = threading.Semaphore(max_outstanding_requests)
                cls._del_thread_pool = ThreadPoolExecutor(num_threads, "grain-shared-memory")

    @classmethod
    def _disable_async_del(cls) -> None:
        with cls._lock:
            pool, cls._del_thread_pool = cls._del_thread_pool, None
            cls._outstanding_del_requests = None
        if pool is not None:
            pool.shutdown()

    @classmethod
    def close_shm_async(cls, shm: SharedMemory, unlink: bool) -> None:
        """Close `shm`, and remove it if `unlink`, in a thread of `enable_async_del`."""
        pool, requests = cls._del_thread_pool, cls._outstanding_del_requests
        if pool is None or requests is None:
            raise AssertionError("Call SharedMemoryArray.enable_async_del() first.")
        requests.acquire()
        try:
            done = pool.submit(cls._close_shm, shm, unlink)
        except RuntimeError:  # the interpreter is exiting and accepts no more tasks
            requests.release()
            cls._close_shm(shm, unlink)
        else:
            done.add_done_callback(lambda _: requests.release())

    def __array_finalize__(self, obj: NDArray[Any] | None) -> None:
        # A view has a base, a copy has none; only a view lies in the memory of `obj`.
        self.shm = getattr(obj, "shm", None) if self.base is not None else None
        self._unlink_on_del = False

    def __array_wrap__(
        self,
        obj: NDArray[Any],
        context: Any = None,
        return_scalar: bool = False,
    ) -> Any:
        return obj[()] if return_scalar else obj

    def __reduce_ex__(self, protocol: Any) -> Any:
        if self.shm is None:
            return super().__reduce_ex__(protocol)
        memory: Any = self.shm.buf
        offset = self.ctypes.data - np.frombuffer(memory, np.uint8).ctypes.data
        return _over, (type(self), self.shm, self.shape, self.dtype, offset, self.strides)

    def __del__(self) -> None:
        # A view has the array it was made of as its base, which lives as long as its views. Globals of
        # this module are not used here: they are gone first when the interpreter exits.
        shm = getattr(self, "shm", None)
        if shm is None or not isinstance(self.base, self._memory_type):
            return
        if self._del_thread_pool is None:
            self._close_shm(shm, self._unlink_on_del)
        else:
            self.close_shm_async(shm, self._unlink_on_del)

    @staticmethod
    def _close_shm(shm: SharedMemory, unlink: bool) -> None:
        shm.close()
        if unlink:
            shm.unlink()


def _over(
    cls: type[SharedMemoryArray],
    shm: SharedMemory,
    shape: Any,
    dtype: DTypeLike,
    offset: int = 0,
    strides: tuple[int, ...] | None = None,
) -> SharedMemoryArray:
    array = np.ndarray.__new__(cls, shape, dtype, shm.buf, offset, strides)
    array.shm = shm
    return array
