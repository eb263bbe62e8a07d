"""Execution of pipelines: plans, executors, worker sessions, threads.

`mp_prefetch` plans a pipeline, opens a session with the workers of an executor, and builds iterators of
the plan:

    dataset graph -- plan() --> Plan -- build(plan, session) --> iterators in the consumer's process

    part of the plan   iterator in the consumer    task                computed in a worker by
    fused              FusedIterator               block of indices    FusedStage
    offload            OffloadIterator             chunk of elements   ElementFunctions
    stream             StreamIterator              next chunk          RemoteStream
    consumer           the node's own iterator     (none)

    iterators --> WorkerSession --> TaskPool (made by Executor.open)
                                       |  submit, result, discard
                                       v
                  WorkerPool -- sockets and shared-memory slots --> worker process: TaskDispatcher

Results return through the same path; iterators deliver them in order. Without workers, map datasets are
read through `AdaptiveReader`, in the consumer's thread or in `BlockThreads`, and any iterator can be
prefetched by one thread (`ThreadPrefetchDatasetIterator`).
"""
