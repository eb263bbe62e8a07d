"""Worker processes that compute tasks, and the shared memory in which their results come back.

This room knows nothing of what a task or a result means.
"""

from grain.execution.processes.errors import WorkerDied, WorkerError
from grain.execution.processes.pool import Job, NotOutstanding, PoolClosed, WorkerPool

__all__ = ["Job", "NotOutstanding", "PoolClosed", "WorkerDied", "WorkerError", "WorkerPool"]
