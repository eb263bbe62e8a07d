"""Execution of pipelines: plans, executors, worker sessions, threads.

`mp_prefetch` selects an executor, plans the pipeline, opens a session with the workers of the executor, and
builds iterators of the plan:

    dataset graph -- plan() --> Plan -- build(plan, session) --> iterators in the consumer's process

    part of the plan   iterator in the consumer    call                computed in a worker by
    fused              FusedIterator               block of indices    FusedStage
    offload            OffloadIterator             chunk of elements   ElementFunctions
    stream             StreamIterator              next chunk          RemoteStream
    consumer           the node's own iterator     (none)

    iterators -- calls --> WorkerSession: parts, pool in use
                              TaskScheduler: resubmission, duplicates, hedging, poison tasks, byte budget
                                 |  submit, define, release, wait, result, discard
                                 v
                           TaskPool, made by Executor.open(job)
         inline: InlinePool            computes in the waiting thread
         threads: TaskThreads          threads of this process
         processes: WorkerPool -- sockets and shared-memory slots --> worker processes
         plugins: any other
                                 |  each worker: job.start(index, count)
                                 v
                           TaskDispatcher: parts by number, computes tasks

Results return through the same path; iterators deliver them in order. Without workers, map datasets are
read through `AdaptiveReader`, in the consumer's thread or in `BlockThreads`, and any iterator can be
prefetched by one thread (`ThreadPrefetchDatasetIterator`). `multithread_prefetch` computes fused stages in
threads, through a `ThreadSession`.

The contract of executors is public: the names below.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from grain._lazy import lazy_names

if TYPE_CHECKING:
    from grain.execution.costs import Costs
    from grain.execution.executor import (
        Executor,
        Job,
        NotOutstanding,
        PoolClosed,
        PoolInterrupted,
        TaskLost,
        TaskPool,
        WorkerDied,
    )
    from grain.execution.inline_executor import InlineExecutor
    from grain.execution.process_executor import ProcessExecutor
    from grain.execution.thread_executor import ThreadExecutor

__all__ = [
    "Costs",
    "Executor",
    "InlineExecutor",
    "Job",
    "NotOutstanding",
    "PoolClosed",
    "PoolInterrupted",
    "ProcessExecutor",
    "TaskLost",
    "TaskPool",
    "ThreadExecutor",
    "WorkerDied",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "grain.execution.costs": ["Costs"],
        "grain.execution.executor": [
            "Executor",
            "Job",
            "NotOutstanding",
            "PoolClosed",
            "PoolInterrupted",
            "TaskLost",
            "TaskPool",
            "WorkerDied",
        ],
        "grain.execution.inline_executor": ["InlineExecutor"],
        "grain.execution.process_executor": ["ProcessExecutor"],
        "grain.execution.thread_executor": ["ThreadExecutor"],
    },
    submodules=None,
)
